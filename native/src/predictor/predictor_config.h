#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

inline constexpr size_t kPredictorLstmLayers = 2;
inline constexpr size_t kMaxPredictorBlocks = 4;

/// Shape of a predictor. Everything else follows from it.
struct PredictorConfig {
  size_t d_in = 0;             ///< width of a token embedding
  size_t hidden = 0;           ///< h
  size_t layers = 0;           ///< MoE layers predicted, all at once
  size_t experts = 0;          ///< experts of each
  bool causal = false;         ///< a token attends to itself and the tokens before it: the decoder's kind
  bool bidirectional = false;  ///< each LSTM layer runs both ways, h / 2 units each; not with causal
  bool positions = false;      ///< a position input is added in the compressing layer
  size_t blocks = 0;           ///< residual attention blocks that stand in the place of the LSTMs; 0: LSTMs
  bool summary = false;        ///< takes a summary vector (d_in) beside each sequence

  /// LSTMs of a layer, and the units of each.
  size_t directions() const { return bidirectional ? 2 : 1; }
  size_t units() const { return hidden / directions(); }

  bool operator==(const PredictorConfig&) const = default;

  /// Throws invalid_request, with the numbers, where a size is outside what the predictor is built for.
  void check() const;
};

}  // namespace sida
