#include "expert/expert_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace sida {

ExpertStore::ExpertStore(const ExpertLayout& layout, DeviceMemory& memory, ExpertFile& disk, HostTier& host,
                         SimulatedLink link, ReadTuning tuning, size_t slots)
    : layout_(layout),
      memory_(memory),
      host_(host),
      residency_(layout.experts()),
      hosted_(layout.experts()),
      transfers_(layout_, memory.backend(), disk, host, link, tuning,
                 [this](ExpertId id, std::exception_ptr error) { finish_load(id, std::move(error)); }) {
  resize(slots);
}

ResidencySnapshot ExpertStore::snapshot() const {
  std::lock_guard lock(mutex_);
  return residency_.snapshot();
}

StoreStats ExpertStore::take_stats() {
  std::lock_guard lock(mutex_);
  const ReadStats reads = transfers_.take_stats();
  static_cast<ResidencyStats&>(stats_) = residency_.take_stats();
  stats_.disk_reads = reads.reads;
  stats_.disk_bytes = reads.bytes;
  stats_.overtakes = reads.overtakes;
  return std::exchange(stats_, {});
}

void ExpertStore::begin_gathered(TransferPriority priority) {
  transfers_.submit(gathered_, priority);
  gathered_.clear();
}

void ExpertStore::finish_load(ExpertId id, std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    residency_.finish_load(id, error == nullptr);
    if (!error) stats_.bytes_moved += layout_.block_bytes(id);
    // An unneeded prefetch that fails is not an error: the expert is loaded again when a layer needs it.
    if (error && residency_.record(id).leases > 0) load_error_ = std::move(error);
    begin_prefetches();
  }
  changed_.notify_all();
}

void ExpertStore::cancel_waiting_prefetches(bool also_planned) {
  for (ExpertId id = 0; id < residency_.experts(); ++id) {
    if (residency_.may_cancel(id, also_planned) && transfers_.cancel(id)) residency_.cancel_load(id);
  }
}

void ExpertStore::drain_loads(std::unique_lock<std::mutex>& lock) {
  residency_.forget_planned_loads();
  cancel_waiting_prefetches(true);
  changed_.wait(lock, [&] { return residency_.loading() == 0; });
}

void ExpertStore::start_pass(const ResidencyPlan& plan, bool prefetches) {
  std::unique_lock lock(mutex_);
  if (!prefetches && host_.experts() == residency_.experts()) drain_loads(lock);
  begin_pass(plan, prefetches);
}

void ExpertStore::start_pass(PassPlanner& planner, const PassNeeds& needs, bool prefetches) {
  planner.read(needs);
  std::unique_lock lock(mutex_);
  if (!prefetches && host_.experts() == residency_.experts()) drain_loads(lock);
  begin_pass(planner.plan(needs, residency_), prefetches);
}

void ExpertStore::begin_pass(const ResidencyPlan& plan, bool prefetches) {
  residency_.start_pass(plan);
  idle_.pass_begins();
  cancel_waiting_prefetches(false);
  if (prefetches) begin_prefetches();
}

void ExpertStore::prefetch() {
  std::lock_guard lock(mutex_);
  begin_prefetches();
}

void ExpertStore::foresee(std::span<ForeseenNeed> needs) {
  std::lock_guard lock(mutex_);
  residency_.foresee(needs, idle_.least_chance());
  begin_prefetches();
}

void ExpertStore::begin_prefetches() {
  while (const auto load = residency_.next_prefetch(transfers_.prefetches_in_flight())) gather(*load);
  begin_gathered(TransferPriority::kPrefetch);
}

void ExpertStore::resize(size_t slots) {
  std::unique_lock lock(mutex_);
  slots = std::min(slots, residency_.experts());
  residency_.check_slots(slots);
  drain_loads(lock);
  // A page comes free with its last slot. Slots that share pages are all allocated again, next to each other.
  const bool again = residency_.slots() > slots && layout_.slot_bytes <= memory_.backend().page_bytes() / 2;
  while (residency_.slots() > (again ? 0 : slots)) {
    const auto slot = residency_.remove_slot();
    if (!slot && residency_.slots() <= slots) break;  // of pinned experts
    if (!slot) throw Error("internal", "no slot can be freed. This is a bug.");
    slots_[*slot] = DeviceBuffer();
  }
  for (uint32_t slot = 0; residency_.slots() < slots; ++slot) {
    if (slot == slots_.size()) slots_.emplace_back();
    if (slots_[slot].data() != nullptr) continue;
    slots_[slot] = DeviceBuffer(memory_, layout_.slot_bytes);
    residency_.add_slot(slot);
  }
}

void ExpertStore::pin(std::span<const ExpertId> ids, bool pinned) {
  std::unique_lock lock(mutex_);
  if (!pinned) {
    residency_.unpin(ids);
    return;
  }
  const std::vector<ExpertId> fresh = residency_.pin(ids);
  drain_loads(lock);
  try {
    load_now(lock, fresh);
  } catch (...) {
    residency_.unpin(fresh);
    throw;
  }
}

void ExpertStore::load_now(std::unique_lock<std::mutex>& lock, std::span<const ExpertId> ids) {
  std::vector<ExpertId> loading;
  for (const ExpertId id : ids) {
    if (residency_.record(id).state != ResidencyState::kAbsent) continue;
    gather(residency_.demand(id));
    loading.push_back(id);
  }
  begin_gathered(TransferPriority::kDemand);
  changed_.wait(lock, [&] {
    return std::none_of(loading.begin(), loading.end(),
                        [&](ExpertId id) { return residency_.record(id).state == ResidencyState::kLoading; });
  });
  for (const ExpertId id : loading) residency_.release(id);
  if (load_error_) std::rethrow_exception(std::exchange(load_error_, nullptr));
}

void ExpertStore::set_elsewhere(std::span<const uint8_t> held) {
  std::lock_guard lock(mutex_);
  residency_.set_elsewhere(held);
}

void ExpertStore::find_absent(size_t layer, std::span<const uint16_t> needed, std::span<uint8_t> absent) {
  const ExpertId first = layout_.shape.first_id(layer);
  std::ranges::fill(absent, 0);
  std::lock_guard lock(mutex_);
  for (const uint16_t index : needed) {
    const ExpertId id = first + index;
    if (residency_.record(id).state != ResidencyState::kAbsent) continue;
    const bool hosted = host_.hold(id) != nullptr;
    if (hosted) host_.release(id);
    absent[index] = !hosted;
  }
}

bool ExpertStore::may_hold_absent(size_t layer) const {
  if (host_.experts() == 0) return false;
  std::lock_guard lock(mutex_);
  for (ExpertId id = layout_.shape.first_id(layer); id < layout_.shape.first_id(layer + 1); ++id) {
    if (residency_.record(id).state == ResidencyState::kAbsent) return true;
  }
  return false;
}

void ExpertStore::hold_hosted(size_t layer, std::span<const uint16_t> needed, std::vector<HostedExpert>& hosted) {
  const ExpertId first = layout_.shape.first_id(layer);
  std::lock_guard lock(mutex_);
  for (const uint16_t index : needed) {
    const ExpertRecord& record = residency_.record(first + index);
    if (record.state != ResidencyState::kAbsent) continue;
    if (const std::byte* block = host_.hold(first + index))
      hosted.push_back({first + index, index, block, record.uses});
  }
}

void ExpertStore::check_integrity() const {
  std::lock_guard lock(mutex_);
  residency_.check_integrity();
  const auto broken = [](const std::string& what) { throw Error("internal", what + ". This is a bug."); };
  const auto exists = [&](uint32_t slot) { return slot < slots_.size() && slots_[slot].data() != nullptr; };
  for (ExpertId id = 0; id < residency_.experts(); ++id) {
    const uint32_t slot = residency_.record(id).slot;
    if (slot != kNoSlot && !exists(slot)) broken("expert " + std::to_string(id) + " holds a slot that does not exist");
  }
  for (const uint32_t slot : residency_.free_slots()) {
    if (!exists(slot)) broken("slot " + std::to_string(slot) + " is free but does not exist");
  }
  const auto real =
      std::count_if(slots_.begin(), slots_.end(), [](const auto& slot) { return slot.data() != nullptr; });
  if (static_cast<size_t>(real) != residency_.slots()) broken("the slot count is off");
  if (memory_.used() > memory_.budget()) broken("the device holds more than its budget");
}

}  // namespace sida
