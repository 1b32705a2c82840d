#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "weights/expert_layout.h"

namespace sida {

/// What a hash table tells of MoE layers that follow each other.
struct TableNeeds {
  uint64_t id;   ///< of the table: it is corrected once while plans name it
  size_t layer;  ///< the first one
  /// (layers, the most experts of any layer of the model), chance that the layer needs the expert. NaN counts as 0.
  std::span<const float> need;
};

/// What is known of the way into device memory: the disk, a simulated link, or the copies to a GPU.
struct LinkState {
  double busy = 1;  ///< share of the time in which it moves experts
  /// Visits that an expert stays on the device, about: slots over loads a visit. Infinite without loads.
  double stay = std::numeric_limits<double>::infinity();
};

/// What is known before a pass of the experts that it and later passes will need.
struct PassNeeds {
  std::vector<TableNeeds> own;                    ///< of the pass
  std::vector<TableNeeds> behind;                 ///< of the later passes of its batch
  std::vector<std::vector<TableNeeds>> upcoming;  ///< of the batches in the queue, the next one first
  /// The pass runs without `own` and `behind`, which still learn from it.
  bool control = false;
  LinkState link;
};

/// Throws invalid_request where tables do not fit the model, where `own` tells of more than the `pass_layers` MoE
/// layers of the pass, or where the link's figures are none.
void check_needs(const PassNeeds& needs, const ExpertShape& shape, size_t pass_layers);

/// A need that is as likely as this is as good as known: its load takes the link sooner, and no longer.
inline constexpr double kKnownChance = 0.95;
/// However idle the link is, rarer needs are not loaded for.
inline constexpr double kRareChance = 0.1;
/// The next use of the victim of a load that takes a free slot.
inline constexpr double kNoVictim = std::numeric_limits<double>::infinity();

/// The least chance of need at which a load pays before its layer asks for it. The victim is needed again in
/// `victim_use` visits.
///
/// With T the time of a load, a right load saves the part of T in which the link would have idled: T · (1 - busy). A
/// wrong one delays the link's other loads, T · busy, and brings back its victim if that would have stayed until its
/// next use, T · stay / (stay + victim_use).
inline double least_chance(const LinkState& link, double victim_use) {
  double returns = 0;
  if (victim_use < kNoVictim) {
    returns = std::isinf(link.stay) ? 1 : link.stay / (link.stay + std::max(0.0, victim_use) + 1);
  }
  return std::clamp((link.busy + returns) / (1 + returns), kRareChance, kKnownChance);
}

}  // namespace sida
