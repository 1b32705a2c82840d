#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expert/expert_store.h"
#include "graph/blocks/moe.h"
#include "graph/routing_trace.h"
#include "kv/sequence_span.h"
#include "ops/ops.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

namespace sida {

/// The compute graph of every family, written once over spec and ops. It is a pure function of weights and inputs: a
/// sequence's rows depend neither on other sequences nor on how many there are.
class Model {
 public:
  /// All outlive the model.
  Model(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, ExpertStore& experts, PeerLinks& peers,
        HostExperts& host)
      : spec_(spec), weights_(weights), ops_(ops), moe_(spec, weights, ops, experts, peers, host) {}

  /// Runs a stack over new tokens of sequences and leaves its final states for states() and logits(). A stack before
  /// the last also leaves the keys and values for the next stack's cross-attention in the sequences' pages. False where
  /// the device ran the pass without the host and needed an expert that only the disk has: run it again without.
  bool run(size_t stack, std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
           const RoutingTrace& trace);
  /// Logits (rows.size(), vocab) of rows of the last pass, at most kMaxLogitRows.
  void logits(std::span<const int32_t> rows, float* out);
  /// Final states (tokens, width) of the last pass.
  void states(size_t tokens, float* out) { ops_.states(tokens, out); }

 private:
  void run_layers(size_t stack, std::span<const SequenceSpan> sequences, size_t count, const RoutingTrace& trace);
  void take_back(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens, const RoutingTrace& trace,
                 bool stopped);
  void feed_forward(const LayerSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                    size_t tokens, const RoutingTrace& trace, size_t trace_layer);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  Ops& ops_;
  MoeBlock moe_;
  std::vector<uint32_t> positions_;  ///< of the pass's tokens, kept so that a pass allocates nothing once it has grown
};

}  // namespace sida
