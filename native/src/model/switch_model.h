#pragma once

#include <cstdint>
#include <span>

#include "model/routing_trace.h"
#include "model/sequence_span.h"

namespace sida {

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
