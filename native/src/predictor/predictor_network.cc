#include "predictor/predictor_network.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace sida {
namespace {

void add(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
}

void add_bias_relu(const float* bias, size_t rows, size_t n, float* y) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = y + r * n;
    for (size_t i = 0; i < n; ++i) row[i] = std::max(row[i] + bias[i], 0.0f);
  }
}

}  // namespace

size_t SequenceBatch::rows() const { return std::accumulate(lengths.begin(), lengths.end(), size_t{0}); }

size_t PredictorActivations::bytes() const {
  size_t floats = 0;
  for (const AlignedFloats* buffer :
       {&stream, &compressed, &lstm_output[0], &lstm_output[1], &weights, &attended, &residual, &features, &head_rows,
        &summaries, &layer_gradient, &branch_gradient, &gradient_sums, &attention.panels, &attention.scores,
        &product.transposed, &product.panels}) {
    floats += buffer->capacity();
  }
  size_t bytes = floats * sizeof(float) + recurrent_scratch.bytes() + block_scratch.bytes();
  for (const BlockActivations& block : blocks) bytes += block.bytes();
  for (const RecurrentActivations& layer : recurrent) bytes += layer.bytes();
  return bytes;
}

void PredictorNetwork::compress(const float* x, size_t rows, float* out) const {
  multiply(x, config().d_in, rows, compress_, out, config().hidden, Epilogue::kStore);
}

void PredictorNetwork::finish_compress(size_t rows, const float* summary_product, float* out) const {
  const size_t h = config().hidden;
  const float* b = bias(PredictorPart::kCompressBias);
  for (size_t r = 0; r < rows; ++r) {
    float* row = out + r * h;
    add(b, h, row);
    if (summary_product != nullptr) add(summary_product, h, row);
    // With blocks the compressed rows stay linear, because the blocks have activations of their own.
    if (config().blocks > 0) continue;
    for (size_t i = 0; i < h; ++i) row[i] = std::max(row[i], 0.0f);
  }
}

void PredictorNetwork::finish_compress(std::span<const uint32_t> lengths, bool summaries,
                                       PredictorActivations* act) const {
  const size_t h = config().hidden;
  float* sequence = act->compressed.data();
  for (size_t s = 0; s < lengths.size(); ++s) {
    finish_compress(lengths[s], summaries ? act->summaries.data() + s * h : nullptr, sequence);
    sequence += lengths[s] * h;
  }
}

void PredictorNetwork::summary_products(const float* summaries, size_t rows, float* out) const {
  multiply(summaries, config().d_in, rows, summary_, out, config().hidden, Epilogue::kStore);
}

void PredictorNetwork::recurrent_features(const float* attended, size_t rows, float* residual, float* features) const {
  const size_t h = config().hidden;
  multiply(attended, h, rows, residual_, residual, h, Epilogue::kStore);
  add_bias_relu(bias(PredictorPart::kResidualBias), rows, h, residual);
  for (size_t i = 0; i < rows * h; ++i) features[i] = attended[i] + residual[i];
}

void PredictorNetwork::block_features(const float* stream, size_t rows, float* features) const {
  rms_norm_rows(stream, final_norm_.data(), rows, config().hidden, features);
}

void PredictorNetwork::heads(const float* features, size_t rows, float* head_rows) const {
  const size_t width = config().layers * config().experts;
  multiply(features, config().hidden, rows, heads_, head_rows, width, Epilogue::kStore);
  const float* b = bias(PredictorPart::kHeadBias);
  for (size_t r = 0; r < rows; ++r) add(b, width, head_rows + r * width);
}

void PredictorNetwork::forward(const SequenceBatch& batch, PredictorActivations* act, float* logits) const {
  const size_t h = config().hidden;
  const size_t rows = batch.rows();
  compress(batch.x, rows, grow(&act->compressed, rows * h));
  const bool summaries = config().summary && batch.summaries != nullptr;
  if (summaries) {
    summary_products(batch.summaries, batch.lengths.size(), grow(&act->summaries, batch.lengths.size() * h));
  }
  forward_products(batch.lengths, summaries, act);
  const size_t experts = config().experts;
  const float* row = act->head_rows.data();
  for (size_t r = 0; r < rows; ++r) {
    for (size_t l = 0; l < config().layers; ++l, row += experts) {
      std::copy_n(row, experts, logits + (l * rows + r) * experts);
    }
  }
}

void PredictorNetwork::forward_products(std::span<const uint32_t> lengths, bool summaries,
                                        PredictorActivations* act) const {
  act->orders[0].assign(lengths);
  if (config().bidirectional) act->orders[1].assign(lengths, TimeDirection::kBackward);
  const size_t rows = act->orders[0].rows();
  finish_compress(lengths, summaries, act);
  config().blocks > 0 ? forward_blocks(lengths, act) : forward_recurrent(lengths, act);
  heads(act->features.data(), rows, grow(&act->head_rows, rows * config().layers * config().experts));
}

void PredictorNetwork::forward_recurrent(std::span<const uint32_t> lengths, PredictorActivations* act) const {
  const size_t h = config().hidden;
  const size_t rows = act->orders[0].rows();
  const float* y = act->compressed.data();
  for (size_t l = 0; l < config().lstm_layers; ++l) {
    float* outputs = grow(&act->lstm_output[l], rows * h);
    recurrent_forward(recurrent_[l], act->orders, y, &act->recurrent[l], outputs);
    y = outputs;
  }
  const SelfAttentionForm form{config().causal, config().attention_weights};
  // The gradient needs the weights, which take the square of a sequence.
  const bool keeps_weights = use_ == NetworkUse::kTraining;
  size_t squares = 0;
  for (const size_t length : lengths) squares += length * length;
  float* weights = keeps_weights ? grow(&act->weights, squares) : nullptr;
  float* attended = grow(&act->attended, rows * h);
  for (const size_t length : lengths) {
    if (keeps_weights) {
      self_attention_forward(y, length, h, form, weights, attended, &act->attention);
      weights += length * length;
    } else {
      self_attention(y, length, h, form, attended, &act->attention);
    }
    attended += length * h;
    y += length * h;
  }
  recurrent_features(act->attended.data(), rows, grow(&act->residual, rows * h), grow(&act->features, rows * h));
}

void PredictorNetwork::forward_blocks(std::span<const uint32_t> lengths, PredictorActivations* act) const {
  const size_t h = config().hidden;
  const size_t rows = act->orders[0].rows();
  float* stream = grow(&act->stream, rows * h);
  std::copy_n(act->compressed.data(), rows * h, stream);
  act->blocks.resize(blocks_.size());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    residual_block_forward(blocks_[b], lengths, config().causal, stream, &act->blocks[b], &act->block_scratch);
  }
  block_features(stream, rows, grow(&act->features, rows * h));
}

}  // namespace sida
