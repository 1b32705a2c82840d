// The backward part of PredictorNetwork.
#include <algorithm>

#include "predictor/predictor_network.h"

namespace sida {
namespace {

// dy (=) the gradient of relu's input: dy where relu's output y is above zero, else 0.
void relu_backward(const float* y, size_t count, float* dy) {
  for (size_t i = 0; i < count; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

}  // namespace

void PredictorNetwork::backward(const SequenceBatch& batch, PredictorActivations* act, const float* dlogits,
                                float* gradients) const {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t d_in = config().d_in;
  const size_t rows = batch.rows();
  const size_t experts = config().experts;
  const size_t width = config().layers * experts;
  const auto gradient = [&](P id) { return gradients + layout_.offset(id); };

  // Heads.
  float* dheads = act->head_rows.data();
  for (size_t l = 0; l < config().layers; ++l) {
    for (size_t r = 0; r < rows; ++r) {
      std::copy_n(dlogits + (l * rows + r) * experts, experts, dheads + r * width + l * experts);
    }
  }
  add_weight_gradients(dheads, width, rows, width, {{act->features.data(), h, h, gradient(P::kHeadWeight)}},
                       &act->product);
  add_rows(dheads, width, rows, width, gradient(P::kHeadBias));
  float* dlayer = grow(&act->layer_gradient, rows * h);
  multiply(dheads, width, rows, heads_back_, dlayer, h, Epilogue::kStore);
  config().blocks > 0 ? backward_blocks(batch.lengths, act, dlayer, gradients)
                      : backward_recurrent(batch.lengths, act, dlayer, gradients);

  // Compression.
  float* dcompressed = dlayer;
  if (config().blocks == 0) relu_backward(act->compressed.data(), rows * h, dcompressed);
  add_weight_gradients(dcompressed, h, rows, h, {{batch.x, d_in, d_in, gradient(P::kCompressWeight)}}, &act->product);
  add_rows(dcompressed, h, rows, h, gradient(P::kCompressBias));
  if (!config().summary || batch.summaries == nullptr) return;
  float* sums = grow(&act->gradient_sums, batch.lengths.size() * h);
  std::fill_n(sums, batch.lengths.size() * h, 0.0f);
  size_t row = 0;
  for (size_t s = 0; s < batch.lengths.size(); row += batch.lengths[s], ++s) {
    add_rows(dcompressed + row * h, h, batch.lengths[s], h, sums + s * h);
  }
  add_weight_gradients(sums, h, batch.lengths.size(), h, {{batch.summaries, d_in, d_in, gradient(P::kSummaryWeight)}},
                       &act->product);
}

void PredictorNetwork::backward_recurrent(std::span<const uint32_t> lengths, PredictorActivations* act, float* dlayer,
                                          float* gradients) const {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t rows = act->orders[0].rows();
  const auto gradient = [&](P id) { return gradients + layout_.offset(id); };

  // Residual: u = r + relu(FC(r)).
  float* dresidual = grow(&act->branch_gradient, rows * h);
  std::copy_n(dlayer, rows * h, dresidual);
  relu_backward(act->residual.data(), rows * h, dresidual);
  add_weight_gradients(dresidual, h, rows, h, {{act->attended.data(), h, h, gradient(P::kResidualWeight)}},
                       &act->product);
  add_rows(dresidual, h, rows, h, gradient(P::kResidualBias));
  multiply(dresidual, h, rows, residual_back_, dlayer, h, Epilogue::kAdd);

  // Attention.
  const float* y = act->lstm_output[config().lstm_layers - 1].data();
  float* dy = dresidual;
  size_t row = 0;
  const float* weights = act->weights.data();
  for (const size_t length : lengths) {
    self_attention_backward(y + row * h, weights, dlayer + row * h, length, h, config().attention_weights, dy + row * h,
                            &act->attention);
    weights += length * length;
    row += length;
  }

  // LSTMs.
  for (size_t l = config().lstm_layers; l-- > 0;) {
    RecurrentGradients lstm;
    for (size_t d = 0; d < recurrent_[l].count; ++d) {
      const LstmParts parts = lstm_parts(l, d);
      lstm[d] = {gradient(parts.input), gradient(parts.hidden), gradient(parts.bias)};
    }
    recurrent_backward(recurrent_[l], act->orders, act->recurrent[l], dy, lstm, l == 0 ? dlayer : dy,
                       &act->recurrent_scratch);
  }
}

void PredictorNetwork::backward_blocks(std::span<const uint32_t> lengths, PredictorActivations* act, float* dlayer,
                                       float* gradients) const {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t rows = act->orders[0].rows();
  float* dfeatures = grow(&act->branch_gradient, rows * h);
  std::copy_n(dlayer, rows * h, dfeatures);
  std::fill_n(dlayer, rows * h, 0.0f);
  rms_norm_backward(act->stream.data(), final_norm_.data(), dfeatures, rows, h, dlayer,
                    gradients + layout_.offset(P::kFinalNorm));
  for (size_t b = blocks_.size(); b-- > 0;) {
    const auto gradient = [&](P id) { return gradients + layout_.offset(block_part(id, b)); };
    residual_block_backward(
        blocks_[b], lengths, config().causal, act->blocks[b],
        {gradient(P::kBlockAttentionNorm), gradient(P::kBlockQkv), gradient(P::kBlockPositions),
         gradient(P::kBlockAttentionOut), gradient(P::kBlockFeedForwardNorm), gradient(P::kBlockFeedForwardUp),
         gradient(P::kBlockFeedForwardBias), gradient(P::kBlockFeedForwardDown)},
        dlayer, &act->block_scratch);
  }
}

}  // namespace sida
