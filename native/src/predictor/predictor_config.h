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
  bool causal = false;         ///< a token attends to itself and earlier tokens, as in a decoder
  bool bidirectional = false;  ///< each LSTM layer runs in both directions with h / 2 units each; not with `causal`
  bool positions = false;      ///< the compressing layer also takes the position
  size_t blocks = 0;           ///< residual attention blocks in place of the LSTMs; 0: LSTMs
  bool summary = false;        ///< takes a summary vector (d_in) with each sequence

  /// LSTMs of a layer, and the units of each.
  size_t directions() const { return bidirectional ? 2 : 1; }
  size_t units() const { return hidden / directions(); }

  bool operator==(const PredictorConfig&) const = default;

  /// Throws invalid_request, with the numbers, where a size is out of range.
  void check() const;
};

}  // namespace sida
