#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "predictor/predictor_weights.h"
#include "predictor/recurrent_layer.h"
#include "predictor/residual_block.h"
#include "predictor/self_attention.h"

namespace sida {

/// Sequences one after the other. A sequence's predictions do not depend on its neighbours.
struct SequenceBatch {
  const float* x = nullptr;           ///< (rows, d_in) token embeddings
  std::span<const uint32_t> lengths;  ///< rows of each sequence; 0 is allowed
  const float* summaries = nullptr;   ///< (sequences, d_in); null: no summary is added

  size_t rows() const;
};

/// Results of a forward pass, in the order in which they are computed, and the scratch space of both passes. Reused
/// from call to call, it grows to the size of the largest batch. Rows are sequence-major unless noted.
struct PredictorActivations {
  RecurrentOrders orders;
  AlignedFloats compressed;  ///< (rows, h) x · W + b + summary · W; relu of it before LSTMs
  std::array<RecurrentActivations, kMaxLstmLayers> recurrent;
  std::array<AlignedFloats, kMaxLstmLayers> lstm_output;  ///< (rows, h)
  AlignedFloats weights;   ///< (length, length) attention weights of each sequence in turn, in training
  AlignedFloats attended;  ///< (rows, h) r = y + attention
  AlignedFloats residual;  ///< (rows, h) relu(r · W + b)
  AlignedFloats stream;    ///< (rows, h) output of the last block
  std::vector<BlockActivations> blocks;
  AlignedFloats features;   ///< (rows, h) inputs of the heads
  AlignedFloats head_rows;  ///< (rows, layers · experts) logits
  AlignedFloats summaries;  ///< (sequences, h) products of the summaries

  AlignedFloats layer_gradient;   ///< (rows, h) gradient passed from layer to layer
  AlignedFloats branch_gradient;  ///< (rows, h) gradient of the branch beside it
  AlignedFloats gradient_sums;    ///< (longest, h) or (sequences, h) sums over rows
  SelfAttentionScratch attention;
  RecurrentScratch recurrent_scratch;
  BlockScratch block_scratch;
  ProductScratch product;

  /// Bytes held.
  size_t bytes() const;
};

/// The use of a network, which decides what it keeps.
enum class NetworkUse : uint8_t {
  kTraining,  ///< forward() and backward()
  kForward,   ///< forward()
  kTokens,    ///< compress(), summary_products(), and forward_products() with int8 weights
};

/// The predictor's maths over packed weights:
///   c = FC(x) [+ FC(position)] [+ FC(summary)], before LSTMs its relu
///   y = LSTM(LSTM(c)), r = y + self-attention(y), u = r + relu(FC(r)); with blocks: u = norm(blocks(c))
///   logits of MoE layer l = head l (u)
/// Const methods may run on several threads, each with its own activations.
class PredictorNetwork {
 public:
  PredictorNetwork(const PredictorConfig& config, NetworkUse use);

  /// Packs weights in the layout of the same config, on the pool's threads where one is given.
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
  void backward(const SequenceBatch& batch, PredictorActivations* act, const float* dlogits, float* gradients) const;

  // The parts that work row by row. A stepwise pass uses them to get the same bits.

  /// out (rows, h) = x · W
  void compress(const float* x, size_t rows, float* out) const;
  /// Turns products into the compressed input, for `rows` rows (h) of one sequence. The product of the summary (h) may
  /// be null.
  void finish_compress(size_t rows, const float* summary_product, float* out) const;
  /// The same for act->compressed of several sequences, with act->summaries where `summaries`.
  void finish_compress(std::span<const uint32_t> lengths, bool summaries, PredictorActivations* act) const;
  /// out (rows, h) = summaries · W
  void summary_products(const float* summaries, size_t rows, float* out) const;
  /// features (rows, h) = attended rows (rows, h) + their residual (rows, h); with LSTMs.
  void recurrent_features(const float* attended, size_t rows, float* residual, float* features) const;
  /// features (rows, h) = norm of the stream (rows, h); with blocks.
  void block_features(const float* stream, size_t rows, float* features) const;
  /// head_rows (rows, layers · experts) = logits of features (rows, h).
  void heads(const float* features, size_t rows, float* head_rows) const;
  const RecurrentLayer& recurrent(size_t layer) const { return recurrent_[layer]; }
  const ResidualBlock& block(size_t index) const { return blocks_[index]; }

 private:
  using PackTasks = std::vector<std::function<void()>>;

  // Parts of load(). Work that any thread can do goes into the tasks.
  void add_forward(const float* weights, PredictorPart id, size_t n, size_t k, PanelMatrix* out, PackTasks* tasks);
  void add_backward(const float* weights, PredictorPart id, size_t n, size_t k, PanelMatrix* out, PackTasks* tasks);
  void load_recurrent(const float* weights, PackTasks* tasks);
  void load_blocks(const float* weights, PackTasks* tasks);

  // From compressed rows to features, and back with the gradients: `dlayer` (rows, h) is the gradient of the
  // features on entry and of the compressed rows on return.
  void forward_recurrent(std::span<const uint32_t> lengths, PredictorActivations* act) const;
  void forward_blocks(std::span<const uint32_t> lengths, PredictorActivations* act) const;
  void backward_recurrent(std::span<const uint32_t> lengths, PredictorActivations* act, float* dlayer,
                          float* gradients) const;
  void backward_blocks(std::span<const uint32_t> lengths, PredictorActivations* act, float* dlayer,
                       float* gradients) const;
  const float* bias(PredictorPart id) const { return biases_[static_cast<size_t>(id)].data(); }

  PredictorLayout layout_;
  NetworkUse use_;
  std::array<std::vector<float>, kPredictorParts> biases_;
  PanelMatrix compress_;
  PanelMatrix summary_;
  std::array<RecurrentLayer, kMaxLstmLayers> recurrent_;
  std::vector<ResidualBlock> blocks_;
  std::vector<float> final_norm_;  ///< (h) 1 + gain
  PanelMatrix residual_;
  PanelMatrix residual_back_;
  PanelMatrix heads_;
  PanelMatrix heads_back_;
  std::deque<AlignedFloats> packed_;
};

}  // namespace sida
