#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "expert/residency_table.h"

// Slots that come and go, pinned experts, and the invariants of both.
namespace sida {

size_t ResidencyTable::pinned() const {
  return static_cast<size_t>(
      std::count_if(records_.begin(), records_.end(), [](const auto& record) { return record.pinned; }));
}

void ResidencyTable::check_slots(size_t slots) const {
  const size_t count = pinned();
  if (slots >= experts() || count < slots) return;
  throw Error("cannot_run",
              std::to_string(count) + " experts are pinned; " + std::to_string(slots) +
                  " slots leave none to rotate: unpin some first",
              {{"pinned", static_cast<double>(count)}, {"slots", static_cast<double>(slots)}});
}

void ResidencyTable::add_slot(uint32_t slot) {
  free_slots_.push_back(slot);
  ++slots_;
}

std::optional<uint32_t> ResidencyTable::remove_slot() {
  const auto slot = take_slot();
  if (slot) --slots_;
  return slot;
}

std::vector<ExpertId> ResidencyTable::pin(std::span<const ExpertId> ids) {
  std::vector<ExpertId> fresh;
  for (const ExpertId id : ids) {
    if (!records_.at(id).pinned && std::find(fresh.begin(), fresh.end(), id) == fresh.end()) fresh.push_back(id);
  }
  const size_t count = fresh.size() + pinned();
  if (slots_ < experts() && count >= slots_) {
    throw Error("cannot_run",
                std::to_string(count) + " pinned experts do not fit: " + std::to_string(slots_) +
                    " slots, of which one must stay unpinned",
                {{"pinned", static_cast<double>(count)}, {"slots", static_cast<double>(slots_)}});
  }
  for (const ExpertId id : fresh) records_[id].pinned = true;
  return fresh;
}

void ResidencyTable::unpin(std::span<const ExpertId> ids) {
  for (const ExpertId id : ids) {
    records_.at(id).pinned = false;
    offer(id);
  }
}

SlotLoad ResidencyTable::demand(ExpertId id) {
  const auto slot = take_slot();
  if (!slot) throw Error("internal", "no slot can be freed for expert " + std::to_string(id) + ". This is a bug.");
  ++records_[id].leases;
  return begin_load(id, *slot, false);
}

void ResidencyTable::check_integrity() const {
  const auto broken = [](const std::string& what) { throw Error("internal", what + ". This is a bug."); };
  std::map<uint32_t, int> holders;
  size_t loading = 0;
  for (ExpertId id = 0; id < records_.size(); ++id) {
    const ExpertRecord& record = records_[id];
    const std::string name = "expert " + std::to_string(id);
    loading += record.state == ResidencyState::kLoading;
    if (record.leases != 0) broken(name + " is leased between passes");
    if (record.state == ResidencyState::kAbsent) {
      if (record.slot != kNoSlot) broken(name + " is absent but holds slot " + std::to_string(record.slot));
      if (record.pinned) broken(name + " is pinned but absent");
    } else {
      if (record.slot == kNoSlot) broken(name + " is not absent but holds no slot");
      ++holders[record.slot];
    }
  }
  for (const uint32_t slot : free_slots_) ++holders[slot];
  for (const auto& [slot, count] : holders) {
    if (count != 1) broken("slot " + std::to_string(slot) + " has " + std::to_string(count) + " holders");
  }
  if (holders.size() != slots_) {
    broken(std::to_string(holders.size()) + " slots are held or free of " + std::to_string(slots_));
  }
  if (loading != loading_) broken("the count of loading experts is off");
}

}  // namespace sida
