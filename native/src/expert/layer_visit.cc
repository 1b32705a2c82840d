#include <chrono>
#include <utility>

#include "core/error.h"
#include "core/profile.h"
#include "expert/expert_store.h"

namespace sida {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

LayerVisit::LayerVisit(ExpertStore& store, size_t layer, std::span<const uint16_t> needed, uint8_t* found,
                       std::span<const uint8_t> asked)
    : store_(store), residency_(store.residency_), first_id_(store.layout_.shape.first_id(layer)) {
  std::lock_guard lock(store_.mutex_);
  residency_.begin_visit();
  for (const uint16_t index : needed) {
    if (!asked.empty() && asked[index] != 0) {
      residency_.need_elsewhere(first_id_ + index, static_cast<Found>(asked[index]));
      found[index] = asked[index];
    } else {
      found[index] = static_cast<uint8_t>(residency_.need(first_id_ + index));
    }
  }
  size_t loads = residency_.missing();
  for (const ExpertId id : residency_.leased()) {
    if (residency_.record(id).state != ResidencyState::kLoading) continue;
    ++loads;
    store_.transfers_.promote(id);
  }
  store_.idle_.layer_begins(steady_seconds(), loads);
  residency_.layer_runs(first_id_, store_.layout_.shape.first_id(layer + 1));
}

void LayerVisit::begin_loads() {
  std::lock_guard lock(store_.mutex_);
  begin_demands();
}

void LayerVisit::bring_back(std::span<const uint16_t> indices, uint8_t* found) {
  std::lock_guard lock(store_.mutex_);
  for (const uint16_t index : indices) found[index] = static_cast<uint8_t>(residency_.bring_back(first_id_ + index));
}

LayerVisit::~LayerVisit() {
  std::lock_guard lock(store_.mutex_);
  residency_.end_visit();
  store_.load_error_ = nullptr;
  store_.begin_prefetches();
}

std::optional<LayerVisit::Expert> LayerVisit::hand_out() {
  const auto id = residency_.hand_out();
  if (!id) return std::nullopt;
  return Expert{static_cast<uint16_t>(*id - first_id_), store_.slots_[residency_.record(*id).slot].data()};
}

std::optional<LayerVisit::Expert> LayerVisit::next_ready() {
  std::lock_guard lock(store_.mutex_);
  if (residency_.missing() > 0) return std::nullopt;
  return hand_out();
}

void LayerVisit::begin_demands() {
  const size_t enough = store_.transfers_.prefetches_in_flight();
  while (const auto load = residency_.next_demand(enough)) store_.gather(*load);
  store_.begin_gathered(TransferPriority::kDemand);
  store_.begin_prefetches();
}

std::optional<LayerVisit::Expert> LayerVisit::next() {
  std::unique_lock lock(store_.mutex_);
  residency_.release_held();
  for (;;) {
    begin_demands();
    if (store_.load_error_) std::rethrow_exception(std::exchange(store_.load_error_, nullptr));
    if (const auto expert = hand_out()) return expert;
    if (residency_.leased().empty() && residency_.missing() == 0) return std::nullopt;
    if (residency_.leased().empty()) {
      // Every slot is pinned or taken by a prefetch for another layer. Cancel the prefetches that have not begun.
      store_.cancel_waiting_prefetches(true);
      if (!residency_.free_slots().empty()) continue;
      if (residency_.loading() == 0) throw Error("internal", "no slot can be freed for a layer. This is a bug.");
    }
    const ProfileScope scope(ProfileOp::kStall,
                             {.layer = static_cast<int32_t>(store_.layout_.shape.place(first_id_).layer)});
    const double start = steady_seconds();
    store_.changed_.wait(lock);
    const double waited = steady_seconds() - start;
    store_.stats_.stall_ns += static_cast<uint64_t>(waited * 1e9);
    store_.idle_.waits(waited);
  }
}

}  // namespace sida
