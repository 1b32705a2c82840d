#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "predictor/predictor_weights.h"
#include "predictor/recurrent_layer.h"
#include "predictor/sparse_attention.h"

namespace sida {

/// Sequences one after the other. A sequence's predictions do not depend on its neighbours.
struct SequenceBatch {
  const float* x = nullptr;           ///< (rows, d_in) token embeddings
  std::span<const uint32_t> lengths;  ///< rows of each sequence; 0 is allowed
  const float* summaries = nullptr;   ///< (sequences, d_in); null: no summary is added

  size_t rows() const;
};

/// What a forward pass computes, in its order, and the scratch space of both passes. Reused from call to
/// call it grows to the largest batch. Rows are sequence-major where not said otherwise.
struct PredictorActivations {
  RecurrentOrders orders;
  AlignedFloats features_of_positions;  ///< (longest, kPositionFeatures)
  AlignedFloats positions;              ///< (longest, h) their products with W
  AlignedFloats compressed;             ///< (rows, h) relu(x · W + b + position · W + summary · W)
  std::array<RecurrentActivations, kPredictorLstmLayers> recurrent;
  std::array<AlignedFloats, kPredictorLstmLayers> lstm_output;  ///< (rows, h)
  AlignedFloats weights;    ///< (length, length) attention weights of each sequence in turn
  AlignedFloats attended;   ///< (rows, h) r = y + attention
  AlignedFloats residual;   ///< (rows, h) relu(r · W + b)
  AlignedFloats features;   ///< (rows, h) r + residual
  AlignedFloats head_rows;  ///< (rows, layers · experts) logits
  AlignedFloats summaries;  ///< (sequences, h) products of the summaries

  AlignedFloats gradient_a;  ///< (rows, h) gradients on their way down
  AlignedFloats gradient_b;
  AlignedFloats gradient_c;  ///< (longest, h) or (sequences, h)
  SparseAttentionScratch attention;
  RecurrentScratch recurrent_scratch;
  ProductScratch product;

  /// Bytes held.
  size_t bytes() const;
};

/// What a network is held for.
enum class NetworkUse : uint8_t {
  kTraining,  ///< forward() and backward()
  kForward,   ///< forward()
  kFolded,    ///< forward_products(): the compressing weights are not held
};

/// The predictor's maths over packed weights:
///   c = relu(FC(x) [+ FC(position)] [+ FC(summary)]), y = LSTM(LSTM(c)), r = y + sparse attention(y), u = r
///   + relu(FC(r)), logits of MoE layer l = head l (u)
/// Const methods may run on several threads, each with its own activations.
class PredictorNetwork {
 public:
  PredictorNetwork(const PredictorConfig& config, NetworkUse use);

  /// Packs the weights of a layout of the same config; on the pool's threads where one is given.
  void load(const float* weights, ThreadPool* pool = nullptr);

  const PredictorConfig& config() const { return layout_.config(); }
  const PredictorLayout& layout() const { return layout_; }
  /// Bytes of the packed weights.
  size_t bytes() const;

  /// Overwrites logits (layers, rows, experts).
  void forward(const SequenceBatch& batch, PredictorActivations* act, float* logits) const;

  /// The same from the inputs' products with the compressing weights. On entry act->compressed is (rows, h)
  /// and, where `summaries`, act->summaries (sequences, h); on return act->head_rows holds the logits.
  void forward_products(std::span<const uint32_t> lengths, bool summaries, PredictorActivations* act) const;

  /// Adds (+=) to gradients, a buffer in the weights' layout. `act` is the forward pass's of the same batch.
  void backward(const SequenceBatch& batch, PredictorActivations* act, const float* dlogits,
                float* gradients) const;

  // The parts that work row by row, from which a stepwise pass gets the same bits.

  /// out (rows, h) = x · W
  void compress(const float* x, size_t rows, float* out) const;
  /// Turns products into the compressed input: `rows` (h) of one sequence; the products of their positions
  /// (rows, h) and of the summary (h) may be null.
  void finish_compress(size_t rows, const float* position_products, const float* summary_product,
                       float* out) const;
  /// out (count, h) = features of positions first, first + 1, … · W; features (count, kPositionFeatures).
  void position_products(size_t first, size_t count, float* features, float* out) const;
  /// out (rows, h) = summaries · W
  void summary_products(const float* summaries, size_t rows, float* out) const;
  /// head_rows (rows, layers · experts) = logits of the attended rows (rows, h).
  void heads(const float* attended, size_t rows, float* residual, float* features, float* head_rows) const;
  const RecurrentLayer& recurrent(size_t layer) const { return recurrent_[layer]; }

 private:
  // gradient (h, kPositionFeatures) +=
  void position_backward(const SequenceBatch& batch, const float* dcompressed, PredictorActivations* act,
                         float* gradient) const;
  const float* bias(PredictorPart id) const { return biases_[static_cast<size_t>(id)].data(); }

  PredictorLayout layout_;
  NetworkUse use_;
  std::array<std::vector<float>, kPredictorParts> biases_;
  PanelMatrix compress_;
  PanelMatrix position_;
  PanelMatrix summary_;
  std::array<RecurrentLayer, kPredictorLstmLayers> recurrent_;
  PanelMatrix residual_;
  PanelMatrix residual_back_;
  PanelMatrix heads_;
  PanelMatrix heads_back_;
  std::array<AlignedFloats, 23> packed_;
};

}  // namespace sida
