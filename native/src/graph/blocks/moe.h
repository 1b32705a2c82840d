#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "expert/expert_store.h"
#include "graph/blocks/host_experts.h"
#include "graph/blocks/route_ahead.h"
#include "graph/routing_trace.h"
#include "kv/sequence_span.h"
#include "ops/dispatch.h"
#include "ops/ops.h"
#include "peers/peer_visit.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

namespace sida {

/// The MoE layers of passes: routes the rows, takes the needed experts from the store as they become resident, and adds
/// their outputs in an order that does not depend on residency.
class MoeBlock {
 public:
  MoeBlock(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, ExpertStore& experts, PeerLinks& peers,
           HostExperts& host)
      : model_(spec),
        ops_(ops),
        experts_(experts),
        peers_(peers),
        host_(host),
        route_ahead_(spec, weights, ops, experts) {}

  /// y += moe(normed), y (tokens, width). `trace_layer`: the layer's place among the pass's MoE layers.
  void run(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
           size_t tokens, const RoutingTrace& trace, size_t trace_layer, float* y);

  /// Takes back what trace.alone has done in the pass's layer `trace_layer`, once it is computed. `stopped`: the pass
  /// needed an expert that only the disk has, so the experts that moved are all that counts.
  void take_back(const MoeSpec& spec, size_t layer, std::span<const SequenceSpan> sequences, size_t tokens,
                 const RoutingTrace& trace, size_t trace_layer, bool stopped);

 private:
  void run_alone(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens, const RoutingTrace& trace,
                 size_t trace_layer, float* y);
  /// y += the experts' outputs, and what comes behind them.
  void combine(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens, float* y);
  void route(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
             size_t tokens, const RoutingTrace& trace, size_t trace_layer);

  /// y += norm(shared(normed)), then normed = the norm of hidden for the other experts.
  void run_shared_branch(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens, float* y);

  /// Chooses which experts peers compute. Leaves `visit` empty where none is asked.
  void ask_peers(size_t layer, const RoutingTrace& trace, std::optional<PeerVisit>& visit);
  void run_experts(LayerVisit& visit, size_t layer);
  /// Runs an expert together with all others that are resident.
  void run_group(std::optional<LayerVisit::Expert> first, LayerVisit& visit, size_t layer);

  const ModelSpec& model_;
  Ops& ops_;
  ExpertStore& experts_;
  PeerLinks& peers_;
  HostExperts& host_;
  RouteAhead route_ahead_;
  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  Dispatch dispatch_;
  std::vector<ExpertBlock> group_;
  std::vector<uint8_t> held_;    ///< (experts of all layers), by peers
  std::vector<uint8_t> absent_;  ///< (experts of the layer)
};

}  // namespace sida
