#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "expert/expert_layout.h"

namespace sida {

enum class ResidencyState : uint8_t { kAbsent, kLoading, kResident };
/// In the order of their numbers.
inline constexpr std::array<const char*, 3> kResidencyStates{"absent", "loading", "resident"};

inline constexpr uint32_t kNoSlot = UINT32_MAX;
inline constexpr ExpertId kNoExpertId = UINT32_MAX;

/// The store's record of one expert.
struct ExpertRecord {
  ResidencyState state = ResidencyState::kAbsent;
  bool pinned = false;
  /// Loaded by a prefetch and not used since.
  bool prefetched = false;
  /// In the plan's loads, and neither resident nor needed yet.
  bool planned = false;
  /// The running pass has needed it, so `keys_after` holds its key.
  bool used = false;
  /// Its running transfer began as a prefetch.
  bool prefetching = false;
  uint32_t slot = kNoSlot;
  /// Uses by the running layer; above 0 the expert is never a victim.
  uint32_t leases = 0;
  uint64_t uses = 0;
  /// Ticks of the store's clock; 0 is never.
  uint64_t last_use = 0;
  uint64_t loaded_at = 0;

  bool evictable() const { return state == ResidencyState::kResident && !pinned && leases == 0; }
};

/// A copy of the table for the eviction policy, one entry an expert.
struct ResidencySnapshot {
  std::vector<uint8_t> state;
  std::vector<uint8_t> pinned;
  std::vector<double> uses;
  std::vector<double> last_use;
  std::vector<double> loaded_at;
  uint32_t slots = 0;
  uint32_t free_slots = 0;
  uint64_t visits = 0;
};

}  // namespace sida
