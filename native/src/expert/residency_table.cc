#include "expert/residency_table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"

namespace sida {

ResidencySnapshot ResidencyTable::snapshot() const {
  ResidencySnapshot copy;
  copy.slots = static_cast<uint32_t>(slots_);
  copy.free_slots = static_cast<uint32_t>(free_slots_.size());
  copy.visits = visits_;
  for (auto* values : {&copy.state, &copy.pinned}) values->resize(experts());
  for (auto* values : {&copy.uses, &copy.loaded_at, &copy.turns, &copy.last_turn, &copy.use_rate, &copy.use_rate_needed,
                       &copy.use_rate_unneeded}) {
    values->resize(experts());
  }
  double gain = UseRate::Weights(0).gain();
  uint64_t turns = 0;
  for (size_t id = 0; id < experts(); ++id) {
    const ExpertRecord& record = records_[id];
    copy.state[id] = static_cast<uint8_t>(record.state);
    copy.pinned[id] = record.pinned;
    copy.uses[id] = static_cast<double>(record.uses);
    copy.loaded_at[id] = static_cast<double>(record.loaded_at);
    const UseRate& rate = use_rates_[id];
    if (rate.turns() != turns) {
      turns = rate.turns();
      gain = UseRate::Weights(turns).gain();
    }
    copy.turns[id] = static_cast<double>(turns);
    copy.last_turn[id] = static_cast<double>(rate.last_turn());
    copy.use_rate[id] = rate.value();
    copy.use_rate_unneeded[id] = rate.unneeded();
    copy.use_rate_needed[id] = copy.use_rate_unneeded[id] + gain;
  }
  return copy;
}

ResidencyStats ResidencyTable::take_stats() { return std::exchange(stats_, {}); }

ExpertId ResidencyTable::next_victim() {
  const auto* victim = victims_.first([&](const VictimQueue::Entry& entry) {
    const ExpertRecord& record = records_[entry.id];
    return record.evictable() && record.last_use == entry.last_use && key(entry.id) == entry.key;
  });
  return victim == nullptr ? kNoExpertId : victim->id;
}

void ResidencyTable::offer(ExpertId id) {
  const ExpertRecord& record = records_[id];
  if (!record.evictable()) return;
  if (victims_.full()) return offer_all();
  victims_.push({key(id), record.last_use, id});
}

void ResidencyTable::offer_all() {
  victims_.clear();
  for (ExpertId id = 0; id < experts(); ++id) {
    const ExpertRecord& record = records_[id];
    if (record.evictable()) victims_.push({key(id), record.last_use, id});
  }
}

void ResidencyTable::release(ExpertId id) {
  --records_.at(id).leases;
  offer(id);
}

uint32_t ResidencyTable::evict(ExpertId id) {
  ExpertRecord& record = records_[id];
  record.state = ResidencyState::kAbsent;
  stats_.prefetches_wasted += std::exchange(record.prefetched, false);
  return std::exchange(record.slot, kNoSlot);
}

std::optional<uint32_t> ResidencyTable::take_slot() {
  if (!free_slots_.empty()) {
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  const ExpertId victim = next_victim();
  if (victim == kNoExpertId) return std::nullopt;
  return evict(victim);
}

SlotLoad ResidencyTable::begin_load(ExpertId id, uint32_t slot, bool prefetch) {
  ExpertRecord& record = records_[id];
  record.state = ResidencyState::kLoading;
  record.slot = slot;
  // In the order of the loads, not of their ends: the order in which readers finish varies.
  record.loaded_at = ++clock_;
  record.prefetched = prefetch;
  record.prefetching = prefetch;
  prefetching_ += prefetch;
  ++loading_;
  return {id, slot};
}

void ResidencyTable::finish_load(ExpertId id, bool moved) {
  ExpertRecord& record = records_[id];
  --loading_;
  prefetching_ -= std::exchange(record.prefetching, false);
  if (moved) {
    record.state = ResidencyState::kResident;
    record.planned = false;
    offer(id);
  } else {
    record.state = ResidencyState::kAbsent;
    free_slots_.push_back(std::exchange(record.slot, kNoSlot));
  }
}

bool ResidencyTable::may_cancel(ExpertId id, bool also_planned) const {
  const ExpertRecord& record = records_[id];
  return record.state == ResidencyState::kLoading && record.leases == 0 && (also_planned || !record.planned);
}

void ResidencyTable::cancel_load(ExpertId id) {
  records_[id].prefetched = false;
  finish_load(id, false);
  ++stats_.prefetches_cancelled;
}

void ResidencyTable::start_pass(const ResidencyPlan& plan) {
  if (plan.keys.size() != plan.keys_after.size() || (!plan.keys.empty() && plan.keys.size() != experts())) {
    throw Error("invalid_request",
                "a plan has " + std::to_string(plan.keys.size()) + " and " + std::to_string(plan.keys_after.size()) +
                    " keys for " + std::to_string(experts()) + " experts",
                {{"experts", static_cast<double>(experts())}});
  }
  const auto is_nan = [](double key) { return std::isnan(key); };
  const auto& unneeded = plan.keys_unneeded.empty() ? plan.keys : plan.keys_unneeded;
  if (unneeded.size() != plan.keys.size()) {
    throw Error("invalid_request", "a plan has " + std::to_string(unneeded.size()) + " keys of unneeded experts and " +
                                       std::to_string(plan.keys.size()) + " others");
  }
  if (!std::isfinite(plan.expendable)) throw Error("invalid_request", "the plan's `expendable` is not a finite number");
  if (std::ranges::any_of(plan.keys, is_nan) || std::ranges::any_of(plan.keys_after, is_nan) ||
      std::ranges::any_of(unneeded, is_nan)) {
    throw Error("invalid_request", "a key of the plan is not a number");
  }
  for (const ExpertId id : plan.loads) {
    if (id < experts()) continue;
    throw Error("invalid_request", "a plan loads expert " + std::to_string(id) + " of " + std::to_string(experts()));
  }
  if (plan.keys.empty()) {
    std::fill(keys_.begin(), keys_.end(), kNever);
    std::fill(keys_after_.begin(), keys_after_.end(), kNever);
    std::fill(keys_unneeded_.begin(), keys_unneeded_.end(), kNever);
  } else {
    std::copy(plan.keys.begin(), plan.keys.end(), keys_.begin());
    std::copy(plan.keys_after.begin(), plan.keys_after.end(), keys_after_.begin());
    std::copy(unneeded.begin(), unneeded.end(), keys_unneeded_.begin());
  }
  forget_foreseen();
  expendable_ = plan.expendable;
  patient_ = plan.patient;
  least_foreseen_ = plan.least_foreseen;
  planned_loads_.assign(plan.loads.begin(), plan.loads.end());
  for (ExpertRecord& record : records_) record.used = record.unneeded = record.planned = record.foreseen = false;
  for (const ExpertId id : planned_loads_) records_[id].planned = true;
  victims_.order_by(plan.newest_first);
  offer_all();
}

void ResidencyTable::forget_foreseen() {
  for (const ExpertId id : foreseen_) {
    foreseen_at_[id] = kNever;
    offer(id);
  }
  foreseen_.clear();
  foreseen_loads_.clear();
}

void ResidencyTable::foresee(std::span<ForeseenNeed> needs, double least_load_chance) {
  forget_foreseen();
  for (ForeseenNeed& need : needs) {
    need.absent = records_.at(need.id).state == ResidencyState::kAbsent;
    if (need.chance < least_foreseen_) continue;
    foreseen_.push_back(need.id);
    foreseen_at_[need.id] = need.time;
    offer(need.id);
    if (need.absent && need.chance >= least_load_chance) foreseen_loads_.push_back(need.id);
  }
}

void ResidencyTable::layer_runs(ExpertId first, ExpertId end) {
  const uint64_t turns = use_rates_[first].turns();
  const UseRate::Weights now(turns);
  const UseRate::Weights next(turns + 1);
  for (ExpertId id = first; id < end; ++id) {
    const bool needed = records_[id].last_use > visit_began_;
    use_rates_[id].turn(needed, visits_, now, next, use_shares_[id]);
    if (needed) continue;
    records_[id].unneeded = true;
    if (keys_unneeded_[id] != keys_[id]) offer(id);
  }
  const auto own = [&](ExpertId id) { return id >= first && id < end; };
  for (const ExpertId id : foreseen_) {
    if (!own(id)) continue;
    foreseen_at_[id] = kNever;
    const bool wrong = std::exchange(records_[id].foreseen, false) && !records_[id].used;
    // Otherwise the plan's prefetches could not have its slot for the rest of the pass.
    if (wrong && keys_unneeded_[id] < expendable_) keys_unneeded_[id] += expendable_;
    offer(id);
  }
  std::erase_if(foreseen_, own);
  std::erase_if(foreseen_loads_, own);
}

bool ResidencyTable::waits_for_loads() const {
  return std::any_of(leased_.begin(), leased_.end(),
                     [&](ExpertId id) { return records_[id].state == ResidencyState::kLoading; });
}

std::optional<SlotLoad> ResidencyTable::next_prefetch(size_t most) {
  // More would take slots early. A prefetch that waits in a list takes no slot and can still be dropped.
  if (prefetching_ >= most || missing() > 0) return std::nullopt;
  if (!foreseen_loads_.empty() && !waits_for_loads()) {
    if (const auto load = begin_first(foreseen_loads_)) {
      records_[load->id].foreseen = true;
      ++stats_.prefetches_foreseen;
      return load;
    }
  }
  return begin_first(planned_loads_);
}

std::optional<SlotLoad> ResidencyTable::begin_first(std::vector<ExpertId>& loads) {
  if (loads.empty()) return std::nullopt;
  const bool free = !free_slots_.empty();
  const ExpertId victim = free ? kNoExpertId : next_victim();
  if (!free && (victim == kNoExpertId || key(victim) < expendable_)) return std::nullopt;
  const auto load = std::find_if(loads.begin(), loads.end(), [&](ExpertId id) {
    const ExpertRecord& record = records_[id];
    return record.state == ResidencyState::kAbsent && !record.used && !record.elsewhere &&
           (free || key(id) < key(victim));
  });
  if (load == loads.end()) return std::nullopt;
  const ExpertId id = *load;
  loads.erase(load);
  return begin_prefetch(id, free ? *take_slot() : evict(victim));
}

SlotLoad ResidencyTable::begin_prefetch(ExpertId id, uint32_t slot) {
  ++stats_.prefetches_begun;
  // The expert was brought back for its next use, so it must not be evicted before that.
  for (auto* keys : {&keys_, &keys_unneeded_}) {
    if ((*keys)[id] >= expendable_) (*keys)[id] -= expendable_;
  }
  return begin_load(id, slot, true);
}

void ResidencyTable::set_elsewhere(std::span<const uint8_t> held) {
  for (size_t id = 0; id < experts(); ++id) records_[id].elsewhere = held[id] != 0;
  offer_all();
}

void ResidencyTable::begin_visit() {
  leased_.clear();
  missing_.clear();
  next_missing_ = 0;
  visit_began_ = clock_;
  ++visits_;
}

void ResidencyTable::count_need(ExpertId id) {
  ExpertRecord& record = records_.at(id);
  ++record.uses;
  record.last_use = ++clock_;
  record.used = true;
  ++stats_.needed;
}

Found ResidencyTable::need(ExpertId id) {
  count_need(id);
  return lease(id);
}

void ResidencyTable::need_elsewhere(ExpertId id, Found by) {
  count_need(id);
  ++(by == Found::kCpu ? stats_.cpu : stats_.peer);
}

Found ResidencyTable::bring_back(ExpertId id) {
  --stats_.peer;
  return lease(id);
}

Found ResidencyTable::lease(ExpertId id) {
  ExpertRecord& record = records_[id];
  Found how = Found::kOnDemand;
  if (record.state == ResidencyState::kResident) {
    how = record.prefetched ? Found::kPrefetched : Found::kResident;
  } else if (record.state == ResidencyState::kLoading || record.planned) {
    how = Found::kLate;
  }
  record.prefetched = false;
  record.planned = false;
  stats_.resident += how == Found::kResident;
  stats_.prefetched += how == Found::kPrefetched;
  stats_.late += how == Found::kLate;
  stats_.on_demand += how == Found::kOnDemand;
  if (record.state == ResidencyState::kAbsent) {
    missing_.push_back(id);
  } else {
    ++record.leases;
    leased_.push_back(id);
  }
  return how;
}

bool ResidencyTable::better_waits(size_t enough) {
  if (!free_slots_.empty() || leased_.size() < enough) return false;
  const ExpertId victim = next_victim();
  if (victim == kNoExpertId) return false;
  // Experts that were here keep the layer busy, but not the disk.
  if (key(victim) >= expendable_ && !(patient_ && demanded_ >= enough)) return false;
  return std::any_of(leased_.begin(), leased_.end(), [&](ExpertId id) { return key(id) > key(victim); });
}

std::optional<SlotLoad> ResidencyTable::next_demand(size_t enough) {
  if (missing() == 0 || better_waits(enough)) return std::nullopt;
  const auto slot = take_slot();
  if (!slot) return std::nullopt;
  const ExpertId id = missing_[next_missing_++];
  ++records_[id].leases;
  records_[id].demanded = true;
  ++demanded_;
  leased_.push_back(id);
  return begin_load(id, *slot, false);
}

std::optional<ExpertId> ResidencyTable::hand_out() {
  const auto ready = std::find_if(leased_.begin(), leased_.end(),
                                  [&](ExpertId id) { return records_[id].state == ResidencyState::kResident; });
  if (ready == leased_.end()) return std::nullopt;
  const ExpertId id = *ready;
  leased_.erase(ready);
  demanded_ -= std::exchange(records_[id].demanded, false);
  held_.push_back(id);
  return id;
}

void ResidencyTable::release_held() {
  for (const ExpertId id : held_) release(id);
  held_.clear();
}

void ResidencyTable::end_visit() {
  release_held();
  for (const ExpertId id : leased_) {
    records_[id].demanded = false;
    release(id);
  }
  demanded_ = 0;
  leased_.clear();
  missing_.clear();
  next_missing_ = 0;
}

void ResidencyTable::take_move(ExpertId id, uint32_t slot, ExpertId evicted, bool prefetch) {
  const bool was_free = evicted == kNoExpertId;
  const auto free = std::ranges::find(free_slots_, slot);
  const bool fits = was_free ? free != free_slots_.end()
                             : evicted < experts() && records_[evicted].slot == slot && records_[evicted].evictable();
  if (!fits || id >= experts() || records_[id].state != ResidencyState::kAbsent) {
    throw Error("internal", "the device moved expert " + std::to_string(id) + " into slot " + std::to_string(slot) +
                                ", where it cannot be. This is a bug.");
  }
  if (was_free) {
    free_slots_.erase(free);
  } else {
    evict(evicted);
  }
  if (prefetch) {
    std::erase(planned_loads_, id);
    begin_prefetch(id, slot);
  } else {
    begin_load(id, slot, false);
  }
  finish_load(id, true);
}

}  // namespace sida
