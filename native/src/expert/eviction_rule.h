#pragma once

#include <array>
#include <span>
#include <vector>

#include "expert/need_calibration.h"
#include "expert/residency_table.h"

namespace sida {

/// Which expert is evicted first, where no table tells of its next use.
enum class EvictionRule {
  /// The one whose next use is farthest: Belady's rule over the known tables, and an estimate beyond them.
  kFarthestNextUse,
  kLru,
  /// The one that the fewest passes have needed.
  kLfu,
  /// The one that was loaded longest ago: the policy of the SiDA paper.
  kFifo,
  /// Expert Buffering ("Towards MoE Deployment", 2023): those that the running pass has not used, the last loaded
  /// first, and then the others in the same order.
  kExpertBuffering,
};
/// In the order of their numbers.
inline constexpr std::array<const char*, 5> kEvictionRules{"farthest-next-use", "lru", "lfu", "fifo",
                                                           "expert-buffering"};

/// (experts) each, finite. The expert with the largest number is evicted first.
struct EvictionRanks {
  std::vector<double> before;    ///< until the pass has used the expert
  std::vector<double> after;     ///< after the pass has used it
  std::vector<double> unneeded;  ///< after its layer has run without using it

  void resize(size_t experts) {
    for (auto* ranks : {&before, &after, &unneeded}) ranks->resize(experts);
  }
};

/// Ranks by expected next use, in visits from now. Tables tell of the next `known` visits; the ranks estimate the uses
/// after them. `own` holds the visits of the running pass.
void rank_by_next_use(const ResidencyTable& experts, const ExpertShape& shape, size_t known,
                      std::span<const PlannedVisit> own, EvictionRanks& ranks);

/// Ranks by the past. `rule` is not kFarthestNextUse.
void rank_by_past(const ResidencyTable& experts, EvictionRule rule, EvictionRanks& ranks);

}  // namespace sida
