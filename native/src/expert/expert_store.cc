#include "expert/expert_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace sida {

ExpertStore::ExpertStore(const ExpertLayout& layout, DeviceMemory& memory, DiskTier& disk, HostTier& host,
                         SimulatedLink link, ReadTuning tuning, size_t slots)
    : layout_(layout),
      memory_(memory),
      records_(layout.experts()),
      keys_(layout.experts()),
      keys_after_(layout.experts()),
      transfers_(layout_, memory.backend(), disk, host, link, tuning,
                 [this](ExpertId id, std::exception_ptr error) { finish_load(id, std::move(error)); }) {
  resize(slots);
}

ResidencySnapshot ExpertStore::snapshot_locked() const {
  ResidencySnapshot copy;
  copy.slots = static_cast<uint32_t>(slot_count_);
  copy.free_slots = static_cast<uint32_t>(free_slots_.size());
  copy.visits = visits_;
  for (const ExpertRecord& record : records_) {
    copy.state.push_back(static_cast<uint8_t>(record.state));
    copy.pinned.push_back(record.pinned);
    copy.uses.push_back(static_cast<double>(record.uses));
    copy.last_use.push_back(static_cast<double>(record.last_use));
    copy.loaded_at.push_back(static_cast<double>(record.loaded_at));
  }
  return copy;
}

ResidencySnapshot ExpertStore::snapshot() const {
  std::lock_guard lock(mutex_);
  return snapshot_locked();
}

StoreStats ExpertStore::take_stats() {
  std::lock_guard lock(mutex_);
  const ReadStats reads = transfers_.take_stats();
  stats_.disk_reads = reads.reads;
  stats_.disk_bytes = reads.bytes;
  stats_.overtakes = reads.overtakes;
  return std::exchange(stats_, {});
}

ExpertId ExpertStore::next_victim() const {
  ExpertId victim = kNoExpertId;
  for (ExpertId id = 0; id < records_.size(); ++id) {
    const ExpertRecord& record = records_[id];
    if (!record.evictable()) continue;
    if (victim != kNoExpertId) {
      if (key(id) < key(victim)) continue;
      const bool newer = record.last_use > records_[victim].last_use;
      if (key(id) == key(victim) && newer != newest_first_) continue;
    }
    victim = id;
  }
  return victim;
}

uint32_t ExpertStore::evict(ExpertId id) {
  ExpertRecord& record = records_[id];
  record.state = ResidencyState::kAbsent;
  stats_.prefetches_wasted += std::exchange(record.prefetched, false);
  return std::exchange(record.slot, kNoSlot);
}

std::optional<uint32_t> ExpertStore::take_slot() {
  if (!free_slots_.empty()) {
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  const ExpertId victim = next_victim();
  if (victim == kNoExpertId) return std::nullopt;
  return evict(victim);
}

void ExpertStore::gather_load(ExpertId id, uint32_t slot, TransferPriority priority) {
  ExpertRecord& record = records_[id];
  record.state = ResidencyState::kLoading;
  record.slot = slot;
  // In the order of the loads, not of their ends: the order in which readers finish varies.
  record.loaded_at = ++clock_;
  record.prefetched = priority == TransferPriority::kPrefetch;
  record.prefetching = record.prefetched;
  prefetching_ += record.prefetching;
  ++loading_;
  gathered_.push_back({id, slots_[slot].data()});
}

void ExpertStore::begin_gathered(TransferPriority priority) {
  transfers_.submit(gathered_, priority);
  gathered_.clear();
}

void ExpertStore::finish_load(ExpertId id, std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    ExpertRecord& record = records_[id];
    --loading_;
    prefetching_ -= std::exchange(record.prefetching, false);
    if (error) {
      record.state = ResidencyState::kAbsent;
      free_slots_.push_back(std::exchange(record.slot, kNoSlot));
      // An unneeded prefetch that fails is not an error: the expert is loaded again when a layer needs it.
      if (record.leases > 0) load_error_ = std::move(error);
    } else {
      record.state = ResidencyState::kResident;
      record.planned = false;
      stats_.bytes_moved += layout_.block_bytes;
    }
    begin_prefetches();
  }
  changed_.notify_all();
}

void ExpertStore::cancel_waiting_prefetches(bool also_planned) {
  for (ExpertId id = 0; id < records_.size(); ++id) {
    ExpertRecord& record = records_[id];
    if (record.state != ResidencyState::kLoading || record.leases > 0) continue;
    if ((record.planned && !also_planned) || !transfers_.cancel(id)) continue;
    record.state = ResidencyState::kAbsent;
    record.prefetched = false;
    record.prefetching = false;
    free_slots_.push_back(std::exchange(record.slot, kNoSlot));
    --loading_;
    --prefetching_;
    ++stats_.prefetches_cancelled;
  }
}

void ExpertStore::drain_loads(std::unique_lock<std::mutex>& lock) {
  loads_.clear();
  cancel_waiting_prefetches(true);
  changed_.wait(lock, [&] { return loading_ == 0; });
}

void ExpertStore::set_plan(const ResidencyPlan& plan) {
  const size_t experts = records_.size();
  if (plan.keys.size() != plan.keys_after.size() || (!plan.keys.empty() && plan.keys.size() != experts)) {
    throw Error("invalid_request",
                "a plan has " + std::to_string(plan.keys.size()) + " and " +
                    std::to_string(plan.keys_after.size()) + " keys for " + std::to_string(experts) +
                    " experts",
                {{"experts", static_cast<double>(experts)}});
  }
  for (const ExpertId id : plan.loads) {
    if (id < experts) continue;
    throw Error("invalid_request",
                "a plan loads expert " + std::to_string(id) + " of " + std::to_string(experts));
  }
  if (plan.keys.empty()) {
    std::fill(keys_.begin(), keys_.end(), 0);
    std::fill(keys_after_.begin(), keys_after_.end(), 0);
  } else {
    std::copy(plan.keys.begin(), plan.keys.end(), keys_.begin());
    std::copy(plan.keys_after.begin(), plan.keys_after.end(), keys_after_.begin());
  }
  expendable_ = plan.expendable;
  newest_first_ = plan.newest_first;
  loads_.assign(plan.loads.begin(), plan.loads.end());
  for (ExpertRecord& record : records_) record.planned = false;
  for (const ExpertId id : loads_) records_[id].planned = true;
  cancel_waiting_prefetches(false);
  begin_prefetches();
}

void ExpertStore::start_pass(const ResidencyPlan& plan) {
  std::lock_guard lock(mutex_);
  for (ExpertRecord& record : records_) record.used = false;
  set_plan(plan);
}

void ExpertStore::begin_prefetches() {
  // More would take slots early. A prefetch that waits in the plan takes no slot and can still be dropped.
  const size_t most = transfers_.prefetches_in_flight();
  auto load = loads_.begin();
  while (load != loads_.end() && prefetching_ < most && waiting_demands_ == 0) {
    const bool free = !free_slots_.empty();
    const ExpertId victim = free ? kNoExpertId : next_victim();
    if (!free && (victim == kNoExpertId || key(victim) < expendable_)) break;
    load = std::find_if(load, loads_.end(), [&](ExpertId id) {
      const ExpertRecord& record = records_[id];
      return record.state == ResidencyState::kAbsent && !record.used && (free || key(id) < key(victim));
    });
    if (load == loads_.end()) break;
    ++stats_.prefetches_begun;
    gather_load(*load, free ? *take_slot() : evict(victim), TransferPriority::kPrefetch);
    // The expert was brought back for its next use, so it must not be evicted before that.
    if (keys_[*load] >= expendable_) keys_[*load] -= expendable_;
    load = loads_.erase(load);
  }
  begin_gathered(TransferPriority::kPrefetch);
}

void ExpertStore::resize(size_t slots) {
  std::unique_lock lock(mutex_);
  slots = std::min(slots, records_.size());
  const auto pinned = static_cast<size_t>(
      std::count_if(records_.begin(), records_.end(), [](const auto& record) { return record.pinned; }));
  if (slots < records_.size() && pinned >= slots) {
    throw Error("cannot_run",
                std::to_string(pinned) + " experts are pinned; " + std::to_string(slots) +
                    " slots leave none to rotate: unpin some first",
                {{"pinned", static_cast<double>(pinned)}, {"slots", static_cast<double>(slots)}});
  }
  drain_loads(lock);
  while (slot_count_ > slots) {
    const auto slot = take_slot();
    if (!slot) throw Error("internal", "no slot can be freed. This is a bug.");
    slots_[*slot] = DeviceBuffer();
    --slot_count_;
  }
  for (uint32_t slot = 0; slot_count_ < slots; ++slot) {
    if (slot == slots_.size()) slots_.emplace_back();
    if (slots_[slot].data() != nullptr) continue;
    slots_[slot] = DeviceBuffer(memory_, layout_.block_bytes);
    free_slots_.push_back(slot);
    ++slot_count_;
  }
}

void ExpertStore::pin(std::span<const ExpertId> ids, bool pinned) {
  std::unique_lock lock(mutex_);
  if (!pinned) {
    for (const ExpertId id : ids) records_.at(id).pinned = false;
    return;
  }
  std::vector<ExpertId> fresh;
  for (const ExpertId id : ids) {
    if (!records_.at(id).pinned && std::find(fresh.begin(), fresh.end(), id) == fresh.end())
      fresh.push_back(id);
  }
  const size_t count =
      fresh.size() + static_cast<size_t>(std::count_if(records_.begin(), records_.end(),
                                                       [](const auto& record) { return record.pinned; }));
  if (slot_count_ < records_.size() && count >= slot_count_) {
    throw Error("cannot_run",
                std::to_string(count) + " pinned experts do not fit: " + std::to_string(slot_count_) +
                    " slots, of which one must stay unpinned",
                {{"pinned", static_cast<double>(count)}, {"slots", static_cast<double>(slot_count_)}});
  }
  drain_loads(lock);
  for (const ExpertId id : fresh) records_[id].pinned = true;
  try {
    load_now(lock, fresh);
  } catch (...) {
    for (const ExpertId id : fresh) records_[id].pinned = false;
    throw;
  }
}

void ExpertStore::load_now(std::unique_lock<std::mutex>& lock, std::span<const ExpertId> ids) {
  std::vector<ExpertId> loading;
  for (const ExpertId id : ids) {
    if (records_[id].state != ResidencyState::kAbsent) continue;
    const auto slot = take_slot();
    if (!slot) throw Error("internal", "no slot can be freed for a pinned expert. This is a bug.");
    records_[id].leases = 1;
    gather_load(id, *slot, TransferPriority::kDemand);
    loading.push_back(id);
  }
  begin_gathered(TransferPriority::kDemand);
  changed_.wait(lock, [&] {
    return std::none_of(loading.begin(), loading.end(),
                        [&](ExpertId id) { return records_[id].state == ResidencyState::kLoading; });
  });
  for (const ExpertId id : loading) records_[id].leases = 0;
  if (load_error_) std::rethrow_exception(std::exchange(load_error_, nullptr));
}

}  // namespace sida
