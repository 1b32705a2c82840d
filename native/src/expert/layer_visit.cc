#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/profile.h"
#include "expert/expert_store.h"

namespace sida {

LayerVisit::LayerVisit(ExpertStore& store, size_t layer, std::span<const uint16_t> needed, uint8_t* found)
    : store_(store),
      first_id_(static_cast<ExpertId>(layer * store.layout_.shape.experts_per_layer)),
      leased_(store.visit_.leased),
      missing_(store.visit_.missing),
      held_(store.visit_.held) {
  std::lock_guard lock(store_.mutex_);
  leased_.clear();
  missing_.clear();
  StoreStats& stats = store_.stats_;
  ++store_.visits_;
  for (const uint16_t index : needed) {
    const ExpertId id = first_id_ + index;
    ExpertRecord& record = store_.records_.at(id);
    ++record.uses;
    record.last_use = ++store_.clock_;
    ++stats.needed;
    Found how = Found::kOnDemand;
    if (record.state == ResidencyState::kResident) {
      how = record.prefetched ? Found::kPrefetched : Found::kResident;
    } else if (record.state == ResidencyState::kLoading) {
      how = Found::kLate;
      store_.transfers_.promote(id);
    } else if (record.planned) {
      how = Found::kLate;
    }
    record.prefetched = false;
    record.planned = false;
    record.used = true;
    found[index] = static_cast<uint8_t>(how);
    stats.resident += how == Found::kResident;
    stats.prefetched += how == Found::kPrefetched;
    stats.late += how == Found::kLate;
    stats.on_demand += how == Found::kOnDemand;
    if (record.state == ResidencyState::kAbsent) {
      missing_.push_back(id);
    } else {
      ++record.leases;
      leased_.push_back(id);
    }
  }
  std::reverse(missing_.begin(), missing_.end());
  store_.waiting_demands_ = missing_.size();
}

LayerVisit::~LayerVisit() {
  std::lock_guard lock(store_.mutex_);
  release_held();
  for (const ExpertId id : leased_) --store_.records_[id].leases;
  store_.load_error_ = nullptr;
  store_.waiting_demands_ = 0;
  store_.begin_prefetches();
}

void LayerVisit::release_held() {
  for (const ExpertId id : held_) --store_.records_[id].leases;
  held_.clear();
}

std::optional<LayerVisit::Expert> LayerVisit::hand_out() {
  const auto ready = std::find_if(leased_.begin(), leased_.end(), [&](ExpertId id) {
    return store_.records_[id].state == ResidencyState::kResident;
  });
  if (ready == leased_.end()) return std::nullopt;
  const ExpertId id = *ready;
  leased_.erase(ready);
  held_.push_back(id);
  return Expert{static_cast<uint16_t>(id - first_id_), store_.slots_[store_.records_[id].slot].data()};
}

std::optional<LayerVisit::Expert> LayerVisit::next_ready() {
  std::lock_guard lock(store_.mutex_);
  if (!missing_.empty()) return std::nullopt;
  return hand_out();
}

bool LayerVisit::better_waits() const {
  if (!store_.free_slots_.empty() || leased_.size() < store_.transfers_.prefetches_in_flight()) return false;
  const ExpertId victim = store_.next_victim();
  if (victim == kNoExpertId || store_.key(victim) >= store_.expendable_) return false;
  return std::any_of(leased_.begin(), leased_.end(),
                     [&](ExpertId id) { return store_.key(id) > store_.key(victim); });
}

void LayerVisit::begin_demands() {
  while (!missing_.empty()) {
    if (better_waits()) break;
    const auto slot = store_.take_slot();
    if (!slot) break;
    const ExpertId id = missing_.back();
    missing_.pop_back();
    ++store_.records_[id].leases;
    leased_.push_back(id);
    store_.gather_load(id, *slot, TransferPriority::kDemand);
    --store_.waiting_demands_;
  }
  store_.begin_gathered(TransferPriority::kDemand);
  store_.begin_prefetches();
}

std::optional<LayerVisit::Expert> LayerVisit::next() {
  std::unique_lock lock(store_.mutex_);
  release_held();
  for (;;) {
    begin_demands();
    if (store_.load_error_) std::rethrow_exception(std::exchange(store_.load_error_, nullptr));
    if (const auto expert = hand_out()) return expert;
    if (leased_.empty() && missing_.empty()) return std::nullopt;
    if (leased_.empty()) {
      // Every slot is pinned or taken by a prefetch for another layer. Cancel the prefetches that have not begun.
      store_.cancel_waiting_prefetches(true);
      if (!store_.free_slots_.empty()) continue;
      if (store_.loading_ == 0) throw Error("internal", "no slot can be freed for a layer. This is a bug.");
    }
    const ProfileScope scope(ProfileOp::kStall,
                             {.layer = static_cast<int32_t>(first_id_ / store_.layout_.shape.experts_per_layer)});
    const auto start = std::chrono::steady_clock::now();
    store_.changed_.wait(lock);
    store_.stats_.stall_ns += static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
            .count());
  }
}

}  // namespace sida
