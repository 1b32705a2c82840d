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
      : model_(spec), ops_(ops), experts_(experts), route_ahead_(spec, weights, ops, experts) {}

  /// y += moe(normed), y (tokens, width). `trace_layer`: the layer's place among the pass's MoE layers.
  void run(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
           size_t tokens, const RoutingTrace& trace, size_t trace_layer, float* y);

 private:
  void route(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
             size_t tokens, const RoutingTrace& trace, size_t trace_layer);

  /// y += norm(shared(normed)), then normed = the norm of hidden for the other experts.
  void run_shared_branch(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens, float* y);

  const ModelSpec& model_;
  Ops& ops_;
  ExpertStore& experts_;
  RouteAhead route_ahead_;
  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  Dispatch dispatch_;
  std::vector<ExpertBlock> group_;
};

}  // namespace sida
