#pragma once

#include <span>
#include <utility>
#include <vector>

#include "expert/pass_planner.h"

namespace sida {

/// An expert store without weights, for replays: it decides as ExpertStore does, by the same residency table, and every
/// load ends at once. Not thread-safe.
class WeightlessStore {
 public:
  /// `layer_experts`: of each layer. `loads_in_flight`: loads that the disk of the store it stands for carries at a
  /// time, as TransferEngine::prefetches_in_flight().
  WeightlessStore(std::span<const size_t> layer_experts, size_t slots, size_t loads_in_flight,
                  EvictionRule rule = EvictionRule::kFarthestNextUse);

  /// Loads of one call, each kind in the order of time. Valid until the next call.
  struct Loads {
    std::vector<ExpertId> demanded;  ///< a layer waited for them
    std::vector<ExpertId> planned;   ///< a plan or a pin asked for them
  };
  /// The plan that a pass with these needs would have. Throws invalid_request where they name unknown experts.
  ResidencyPlan plan(const PassNeeds& needs);
  /// As ExpertStore::start_pass.
  const Loads& start_pass(const ResidencyPlan& plan);
  /// `found` (needs of the pass's tables): not 0 where a layer needed the expert.
  void learn(const PassNeeds& needs, std::span<const uint8_t> found);
  double table_weight() const { return planner_.table_weight(); }
  /// Time of plans and of learning since the last call.
  uint64_t take_plan_ns() { return std::exchange(plan_ns_, 0); }
  /// One layer's use of its experts, in ascending order. Throws invalid_request for other orders, unknown experts and
  /// experts of several layers.
  const Loads& visit(std::span<const ExpertId> ids);
  /// As ExpertStore::pin.
  const Loads& pin(std::span<const ExpertId> ids, bool pinned);

  size_t experts() const { return residency_.experts(); }
  ResidencySnapshot snapshot() const { return residency_.snapshot(); }
  void check_integrity() const { residency_.check_integrity(); }

 private:
  void check_ids(std::span<const ExpertId> ids) const;
  void check_layer(std::span<const ExpertId> ids) const;
  void begin_call();
  void load(SlotLoad load, std::vector<ExpertId>& kind);
  void load_planned();

  ExpertShape shape_;
  ResidencyTable residency_;
  PassPlanner planner_;
  uint64_t plan_ns_ = 0;
  size_t loads_in_flight_;
  Loads loads_;
};

}  // namespace sida
