#include "predictor/predictor_network.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "predictor/position_features.h"

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
       {&features_of_positions, &positions, &compressed, &lstm_output[0], &lstm_output[1], &weights,
        &attended, &residual, &features, &head_rows, &summaries, &gradient_a, &gradient_b, &gradient_c,
        &attention.panels, &attention.scores, &product.transposed, &product.panels}) {
    floats += buffer->capacity();
  }
  size_t bytes = floats * sizeof(float) + recurrent_scratch.bytes();
  for (const RecurrentActivations& layer : recurrent) bytes += layer.bytes();
  return bytes;
}

PredictorNetwork::PredictorNetwork(const PredictorConfig& config, NetworkUse use)
    : layout_(config), use_(use) {}

void PredictorNetwork::load(const float* weights, ThreadPool* pool) {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t heads = config().layers * config().experts;
  const auto part = [&](P id) { return weights + layout_.offset(id); };
  for (const P id : {P::kCompressBias, P::kLstm0Bias, P::kLstm0ReverseBias, P::kLstm1Bias,
                     P::kLstm1ReverseBias, P::kResidualBias, P::kHeadBias}) {
    biases_[static_cast<size_t>(id)].assign(part(id), part(id) + layout_.tensor(id).count);
  }
  std::vector<std::function<void()>> packs;
  size_t next = 0;
  const auto forward = [&](P id, size_t n, size_t k, PanelMatrix* out) {
    AlignedFloats* room = &packed_[next++];
    packs.emplace_back([=] { *out = pack_transposed(part(id), n, k, room); });
  };
  const auto back = [&](P id, size_t n, size_t k, PanelMatrix* out) {
    AlignedFloats* room = &packed_[next++];
    if (use_ == NetworkUse::kTraining) packs.emplace_back([=] { *out = pack_rows(part(id), k, n, k, room); });
  };
  const size_t units = config().units();
  for (size_t l = 0; l < kPredictorLstmLayers; ++l) {
    recurrent_[l].count = config().directions();
    for (size_t d = 0; d < recurrent_[l].count; ++d) {
      const LstmParts parts = lstm_parts(l, d);
      LstmLayer& lstm = recurrent_[l].directions[d];
      lstm.hidden = units;
      lstm.bias = bias(parts.bias);
      forward(parts.input, 4 * units, h, &lstm.input);
      forward(parts.hidden, 4 * units, units, &lstm.recurrent);
      back(parts.input, 4 * units, h, &lstm.input_back);
      back(parts.hidden, 4 * units, units, &lstm.hidden_back);
    }
  }
  if (config().positions) forward(P::kPositionWeight, h, kPositionFeatures, &position_);
  if (use_ != NetworkUse::kFolded) {
    forward(P::kCompressWeight, h, config().d_in, &compress_);
    if (config().summary) forward(P::kSummaryWeight, h, config().d_in, &summary_);
  }
  forward(P::kResidualWeight, h, h, &residual_);
  back(P::kResidualWeight, h, h, &residual_back_);
  forward(P::kHeadWeight, heads, h, &heads_);
  back(P::kHeadWeight, heads, h, &heads_back_);
  if (pool != nullptr) {
    pool->parallel_for(packs.size(), [&](size_t task, size_t) { packs[task](); });
  } else {
    for (const auto& pack : packs) pack();
  }
}

size_t PredictorNetwork::bytes() const {
  size_t floats = 0;
  for (const AlignedFloats& room : packed_) floats += room.capacity();
  for (const std::vector<float>& bias : biases_) floats += bias.capacity();
  return floats * sizeof(float);
}

void PredictorNetwork::compress(const float* x, size_t rows, float* out) const {
  multiply(x, config().d_in, rows, compress_, out, config().hidden, Epilogue::kStore);
}

void PredictorNetwork::finish_compress(size_t rows, const float* position_products,
                                       const float* summary_product, float* out) const {
  const size_t h = config().hidden;
  const float* b = bias(PredictorPart::kCompressBias);
  for (size_t r = 0; r < rows; ++r) {
    float* row = out + r * h;
    add(b, h, row);
    if (position_products != nullptr) add(position_products + r * h, h, row);
    if (summary_product != nullptr) add(summary_product, h, row);
    for (size_t i = 0; i < h; ++i) row[i] = std::max(row[i], 0.0f);
  }
}

void PredictorNetwork::position_products(size_t first, size_t count, float* features, float* out) const {
  position_features(first, count, features);
  multiply(features, kPositionFeatures, count, position_, out, config().hidden, Epilogue::kStore);
}

void PredictorNetwork::summary_products(const float* summaries, size_t rows, float* out) const {
  multiply(summaries, config().d_in, rows, summary_, out, config().hidden, Epilogue::kStore);
}

void PredictorNetwork::heads(const float* attended, size_t rows, float* residual, float* features,
                             float* head_rows) const {
  const size_t h = config().hidden;
  const size_t width = config().layers * config().experts;
  multiply(attended, h, rows, residual_, residual, h, Epilogue::kStore);
  add_bias_relu(bias(PredictorPart::kResidualBias), rows, h, residual);
  for (size_t i = 0; i < rows * h; ++i) features[i] = attended[i] + residual[i];
  multiply(features, h, rows, heads_, head_rows, width, Epilogue::kStore);
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
  const size_t h = config().hidden;
  act->orders[0].assign(lengths);
  if (config().bidirectional) act->orders[1].assign(lengths, TimeDirection::kBackward);
  const size_t rows = act->orders[0].rows();
  const float* positions = nullptr;
  if (config().positions) {
    const size_t longest = act->orders[0].steps();
    float* features = grow(&act->features_of_positions, longest * kPositionFeatures);
    position_products(0, longest, features, grow(&act->positions, longest * h));
    positions = act->positions.data();
  }
  float* sequence = act->compressed.data();
  for (size_t s = 0; s < lengths.size(); ++s) {
    finish_compress(lengths[s], positions, summaries ? act->summaries.data() + s * h : nullptr, sequence);
    sequence += lengths[s] * h;
  }

  const float* x = act->compressed.data();
  for (size_t l = 0; l < kPredictorLstmLayers; ++l) {
    float* y = grow(&act->lstm_output[l], rows * h);
    recurrent_forward(recurrent_[l], act->orders, x, &act->recurrent[l], y);
    x = y;
  }

  size_t squares = 0;
  for (const size_t length : lengths) squares += length * length;
  float* weights = grow(&act->weights, squares);
  float* attended = grow(&act->attended, rows * h);
  const float* y = x;
  for (const size_t length : lengths) {
    sparse_attention_forward(y, length, h, config().causal, weights, attended, &act->attention);
    weights += length * length;
    attended += length * h;
    y += length * h;
  }

  heads(act->attended.data(), rows, grow(&act->residual, rows * h), grow(&act->features, rows * h),
        grow(&act->head_rows, rows * config().layers * config().experts));
}

}  // namespace sida
