#include <string>
#include <vector>

#include "core/error.h"
#include "expert/expert_store.h"

namespace sida {

void ExpertStore::check_integrity() const {
  std::lock_guard lock(mutex_);
  std::vector<int> holders(slots_.size());
  const auto broken = [](const std::string& what) { throw Error("internal", what + ". This is a bug."); };
  size_t loading = 0;
  for (ExpertId id = 0; id < records_.size(); ++id) {
    const ExpertRecord& record = records_[id];
    const std::string name = "expert " + std::to_string(id);
    loading += record.state == ResidencyState::kLoading;
    if (record.leases != 0) broken(name + " is leased between passes");
    if (record.state == ResidencyState::kAbsent) {
      if (record.slot != kNoSlot) broken(name + " is absent but holds slot " + std::to_string(record.slot));
      if (record.pinned) broken(name + " is pinned but absent");
      continue;
    }
    if (record.slot >= slots_.size() || slots_[record.slot].data() == nullptr) {
      broken(name + " holds a slot that does not exist");
    }
    ++holders[record.slot];
  }
  for (const uint32_t slot : free_slots_) ++holders.at(slot);
  size_t real = 0;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const int expected = slots_[slot].data() != nullptr;
    real += static_cast<size_t>(expected);
    if (holders[slot] != expected) {
      broken("slot " + std::to_string(slot) + " has " + std::to_string(holders[slot]) + " holders");
    }
  }
  if (real != slot_count_) broken("the slot count is off");
  if (loading != loading_) broken("the count of loading experts is off");
  if (memory_.used() > memory_.budget()) broken("the device holds more than its budget");
}

}  // namespace sida
