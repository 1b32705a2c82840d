#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/predicted_routing.h"
#include "model/sequence_span.h"

namespace sida {

/// Told the MoE layer's number inside the pass and the expert of each token, kDropped over capacity.
using RoutedHook = std::function<void(size_t layer, std::span<const uint16_t> experts)>;

/// What a pass reports of its MoE layers, in order, and what routes them. Pointers may be null where not
/// wanted.
struct RoutingTrace {
  uint16_t* dispatch;    ///< (layers, tokens, k): the experts of each token, kDropped over capacity
  uint8_t* found;        ///< (layers, experts): Found
  float* router_logits;  ///< (layers, tokens, experts); not with `predicted`
  /// Called when a layer's routers have chosen and before their experts are loaded; may be empty.
  const RoutedHook& on_routed;
  /// Checked routing of all layers, in place of the routers.
  const PredictedRouting* predicted = nullptr;
  /// A layer's turn takes every expert of it, needed or not; answers stay the same.
  bool whole_layers = false;
};

/// The Switch Transformer of transformers 5: a pure function of weights and inputs. Rows of one sequence
/// never depend on another's, nor on how many there are.
class SwitchModel {
 public:
  virtual ~SwitchModel() = default;

  /// Runs the encoder over `tokens` and leaves its states for states(), and the cross-attention keys and
  /// values of every decoder layer in the sequences' pages.
  virtual void encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                      const RoutingTrace& trace) = 0;

  /// Runs the decoder over new tokens of sequences and leaves its final states for states() and head().
  virtual void decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                      const RoutingTrace& trace) = 0;

  /// Logits (rows.size(), vocab) of rows of the last pass.
  virtual void head(std::span<const int32_t> rows, float* logits) = 0;

  /// Final states (tokens, d_model) of the last pass.
  virtual void states(size_t tokens, float* out) = 0;
};

}  // namespace sida
