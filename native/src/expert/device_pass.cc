// Passes of a device that moves experts by itself.
#include <algorithm>
#include <utility>

#include "expert/expert_store.h"

namespace sida {

/// The tier evicts none of them any more, which is nothing lost where it has room for all.
void ExpertStore::hold_in_host() {
  if (!host_.on()) return;
  if (!host_.holds(layout_.experts())) {
    for (ExpertId id = 0; id < hosted_.size(); ++id) {
      if (std::exchange(hosted_[id], nullptr) != nullptr) host_.release(id);
    }
    return;
  }
  if (host_.experts() == hosted_experts_) return;
  hosted_experts_ = host_.experts();
  for (ExpertId id = 0; id < hosted_.size(); ++id) {
    if (hosted_[id] == nullptr) hosted_[id] = host_.hold(id);
  }
}

bool ExpertStore::lend(SlotTable& table, size_t most, bool needs_all) {
  std::lock_guard lock(mutex_);
  if (residency_.loading() > 0) return false;
  hold_in_host();
  size_t resident = 0;
  for (ExpertId id = 0; id < residency_.experts(); ++id) {
    table.slot_of[id] = residency_.record(id).slot;
    resident += residency_.record(id).state == ResidencyState::kResident;
    if (needs_all && hosted_[id] == nullptr && table.slot_of[id] == kNoSlot) return false;
  }
  table.all_resident = resident == residency_.experts();
  table.prefetch_count = 0;
  table.slot_count = slots_.size();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    std::byte* block = slots_[slot].data();
    table.slots[slot] = {block, kNothing, block == nullptr ? kNothing : 0};
  }
  size_t fixed = 0;
  for (ExpertId id = 0; id < residency_.experts(); ++id) {
    const ExpertRecord& record = residency_.record(id);
    if (record.slot == kNoSlot) continue;
    const bool stays = record.pinned || hosted_[id] == nullptr;
    table.slots[record.slot].expert = id;
    if (stays) table.slots[record.slot].fixed = kNothing;
    fixed += stays;
  }
  if (table.all_resident) return true;
  if (residency_.slots() - fixed < most) return false;
  for (const ExpertId id : residency_.planned_loads()) {
    if (hosted_[id] == nullptr && table.slot_of[id] == kNoSlot) return false;
    if (table.prefetch_count < table.prefetches.size()) table.prefetches[table.prefetch_count++] = id;
  }
  table.expendable = residency_.expendable();
  table.clock = residency_.clock();
  table.newest_first = residency_.newest_first();
  for (ExpertId id = 0; id < residency_.experts(); ++id) {
    const auto [before, after, unneeded] = residency_.keys(id);
    table.experts[id] = {hosted_[id], residency_.record(id).last_use, before, after, unneeded};
  }
  return true;
}

void ExpertStore::take_back(size_t layer, std::span<const uint16_t> needed, const LayerLog& log, uint8_t* found) {
  const ExpertId first = layout_.shape.first_id(layer);
  std::lock_guard lock(mutex_);
  if (!needed.empty()) {
    residency_.begin_visit();
    for (const uint16_t index : needed) found[index] = static_cast<uint8_t>(residency_.need(first + index));
    residency_.layer_runs(first, layout_.shape.first_id(layer + 1));
  }
  const auto take = [&](std::span<const MovedExpert> moved, bool prefetch) {
    for (const auto& [id, slot, evicted] : moved) {
      residency_.take_move(id, slot, evicted, prefetch);
      stats_.bytes_moved += layout_.block_bytes(id);
    }
  };
  take({log.moved, log.moves}, false);
  take({log.prefetched, log.prefetches}, true);
  if (!needed.empty()) residency_.end_visit();
}

}  // namespace sida
