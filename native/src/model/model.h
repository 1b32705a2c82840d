#pragma once

#include <cstdint>
#include <span>

#include "expert/expert_store.h"
#include "model/dispatch.h"
#include "model/model_weights.h"
#include "model/routing_trace.h"
#include "model/sequence_span.h"
#include "model/spec.h"
#include "ops/ops.h"

namespace sida {

/// The graph of every family, written once over spec and ops: a pure function of weights and inputs. Rows of one
/// sequence never depend on another's, nor on how many there are.
class Model {
 public:
  /// All outlive the model.
  Model(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, ExpertStore& experts);

  /// Runs a stack over new tokens of sequences and leaves its final states for states() and logits(). A stack that
  /// another attends across to leaves the keys and values of that stack's cross-attention layers in its pages.
  void run(size_t stack, std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
           const RoutingTrace& trace);
  /// Logits (rows.size(), vocab) of rows of the last pass, at most kMostLogitRows.
  void logits(std::span<const int32_t> rows, float* out);
  /// Final states (tokens, width) of the last pass.
  void states(size_t tokens, float* out);

 private:
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  Ops& ops_;
  ExpertStore& experts_;
  Dispatch dispatch_;
  std::vector<ExpertBlock> group_;
};

}  // namespace sida
