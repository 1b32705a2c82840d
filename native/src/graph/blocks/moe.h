#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "expert/expert_store.h"
#include "graph/blocks/route_ahead.h"
#include "graph/routing_trace.h"
#include "kv/sequence_span.h"
#include "ops/dispatch.h"
#include "ops/ops.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

namespace sida {

/// The MoE layers of passes: routes the rows, takes the needed experts from the store as they become resident, and adds
/// their outputs in an order that does not depend on residency.
class MoeBlock {
 public:
  MoeBlock(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, ExpertStore& experts)
      : ops_(ops), experts_(experts), route_ahead_(spec, weights, ops, experts) {}

  /// hidden += moe(normed). `trace_layer`: the layer's place among those of the pass.
  void run(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
           size_t tokens, const RoutingTrace& trace, size_t trace_layer);

 private:
  void route(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
             size_t tokens, const RoutingTrace& trace, size_t trace_layer);

  Ops& ops_;
  ExpertStore& experts_;
  RouteAhead route_ahead_;
  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  Dispatch dispatch_;
  std::vector<ExpertBlock> group_;
};

}  // namespace sida
