#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

inline constexpr size_t kMaxLstmLayers = 2;
inline constexpr size_t kMaxPredictorBlocks = 4;

enum class NetworkKind : uint8_t {
  kLstm,       ///< LSTM layers, then self-attention
  kAttention,  ///< residual attention blocks
};

/// What turns the scores of an LSTM network's self-attention into weights.
enum class WeightFunction : uint8_t { kSparsemax, kSoftmax };

/// Shape of a predictor. Everything else follows from it.
struct PredictorConfig {
  size_t d_in = 0;             ///< width of a token embedding
  size_t hidden = 0;           ///< h
  size_t layers = 0;           ///< MoE layers predicted, all at once
  size_t experts = 0;          ///< experts of each
  bool causal = false;         ///< a token attends to itself and earlier tokens, as in a decoder
  bool bidirectional = false;  ///< each LSTM layer runs in both directions with h / 2 units each; not with `causal`
  size_t blocks = 0;           ///< residual attention blocks; 0: an LSTM network
  bool summary = false;        ///< takes a summary vector (d_in) with each sequence
  size_t lstm_layers = 2;      ///< LSTM layers; without meaning to an attention network, as the next
  WeightFunction attention_weights = WeightFunction::kSparsemax;

  NetworkKind kind() const { return blocks > 0 ? NetworkKind::kAttention : NetworkKind::kLstm; }

  /// LSTMs of a layer, and the units of each.
  size_t directions() const { return bidirectional ? 2 : 1; }
  size_t units() const { return hidden / directions(); }

  bool operator==(const PredictorConfig&) const = default;

  /// Throws invalid_request, with the numbers, where a size is out of range.
  void check() const;
};

}  // namespace sida
