#include "predictor/predictor_network.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace sida {
namespace {

void add_bias_relu(const float* bias, size_t rows, size_t n, float* y) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = y + r * n;
    for (size_t i = 0; i < n; ++i) row[i] = std::max(row[i] + bias[i], 0.0f);
  }
}

// dy (=) gated: what relu's output y was zero at gets no gradient.
void relu_backward(const float* y, size_t count, float* dy) {
  for (size_t i = 0; i < count; ++i) dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

}  // namespace

size_t SequenceBatch::rows() const { return std::accumulate(lengths.begin(), lengths.end(), size_t{0}); }

size_t PredictorActivations::bytes() const {
  size_t floats = 0;
  const auto add = [&](std::initializer_list<const AlignedFloats*> buffers) {
    for (const AlignedFloats* buffer : buffers) floats += buffer->capacity();
  };
  for (const LstmActivations& layer : lstm)
    add({&layer.gates, &layer.cells, &layer.cell_tanh, &layer.outputs});
  add({&compressed, &lstm_input, &lstm_output, &weights, &attended, &residual, &features, &head_rows,
       &summaries});
  add({&gradient_a, &gradient_b, &gradient_c, &attention.panels, &attention.scores});
  add({&lstm_scratch.dgates, &lstm_scratch.previous, &lstm_scratch.carry_hidden, &lstm_scratch.carry_cell});
  add({&lstm_scratch.product.transposed, &lstm_scratch.product.panels, &product.transposed, &product.panels});
  return floats * sizeof(float);
}

PredictorNetwork::PredictorNetwork(const PredictorConfig& config, NetworkUse use)
    : layout_(config), use_(use) {}

void PredictorNetwork::load(const float* weights, ThreadPool* pool) {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t heads = config().layers * config().experts;
  const auto part = [&](P id) { return weights + layout_.offset(id); };
  for (const P id : {P::kCompressBias, P::kLstm0Bias, P::kLstm1Bias, P::kResidualBias, P::kHeadBias}) {
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
  constexpr P kInput[] = {P::kLstm0Input, P::kLstm1Input};
  constexpr P kHidden[] = {P::kLstm0Hidden, P::kLstm1Hidden};
  constexpr P kBias[] = {P::kLstm0Bias, P::kLstm1Bias};
  for (size_t l = 0; l < kPredictorLstmLayers; ++l) {
    lstm_[l].hidden = h;
    lstm_[l].bias = bias(kBias[l]);
    forward(kInput[l], 4 * h, h, &lstm_[l].input);
    forward(kHidden[l], 4 * h, h, &lstm_[l].recurrent);
    back(kInput[l], 4 * h, h, &lstm_[l].input_back);
    back(kHidden[l], 4 * h, h, &lstm_[l].hidden_back);
  }
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

void PredictorNetwork::finish_compress(size_t rows, const float* summary_product, float* out) const {
  const size_t h = config().hidden;
  const float* b = bias(PredictorPart::kCompressBias);
  if (summary_product == nullptr) return add_bias_relu(b, rows, h, out);
  for (size_t r = 0; r < rows; ++r) {
    float* row = out + r * h;
    for (size_t i = 0; i < h; ++i) row[i] = std::max(row[i] + b[i] + summary_product[i], 0.0f);
  }
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
  for (size_t r = 0; r < rows; ++r) {
    float* row = head_rows + r * width;
    for (size_t i = 0; i < width; ++i) row[i] += b[i];
  }
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
  act->order.assign(lengths);
  const size_t rows = act->order.rows();
  float* sequence = act->compressed.data();
  for (size_t s = 0; s < lengths.size(); ++s) {
    finish_compress(lengths[s], summaries ? act->summaries.data() + s * h : nullptr, sequence);
    sequence += lengths[s] * h;
  }

  act->order.gather(act->compressed.data(), h, grow(&act->lstm_input, rows * h));
  lstm_forward(lstm_[0], act->order, act->lstm_input.data(), &act->lstm[0]);
  lstm_forward(lstm_[1], act->order, act->lstm[0].outputs.data(), &act->lstm[1]);
  act->order.scatter(act->lstm[1].outputs.data(), h, grow(&act->lstm_output, rows * h));

  size_t squares = 0;
  for (const size_t length : lengths) squares += length * length;
  float* weights = grow(&act->weights, squares);
  float* attended = grow(&act->attended, rows * h);
  const float* y = act->lstm_output.data();
  for (const size_t length : lengths) {
    sparse_attention_forward(y, length, h, config().causal, weights, attended, &act->attention);
    weights += length * length;
    attended += length * h;
    y += length * h;
  }

  heads(act->attended.data(), rows, grow(&act->residual, rows * h), grow(&act->features, rows * h),
        grow(&act->head_rows, rows * config().layers * config().experts));
}

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
  float* dattended = grow(&act->gradient_a, rows * h);
  multiply(dheads, width, rows, heads_back_, dattended, h, Epilogue::kStore);

  // Residual: u = r + relu(FC(r)).
  float* dresidual = grow(&act->gradient_b, rows * h);
  std::copy_n(dattended, rows * h, dresidual);
  relu_backward(act->residual.data(), rows * h, dresidual);
  add_weight_gradients(dresidual, h, rows, h, {{act->attended.data(), h, h, gradient(P::kResidualWeight)}},
                       &act->product);
  add_rows(dresidual, h, rows, h, gradient(P::kResidualBias));
  multiply(dresidual, h, rows, residual_back_, dattended, h, Epilogue::kAdd);

  // Attention.
  float* dy = dresidual;
  size_t row = 0;
  const float* weights = act->weights.data();
  for (const size_t length : batch.lengths) {
    sparse_attention_backward(act->lstm_output.data() + row * h, weights, dattended + row * h, length, h,
                              dy + row * h, &act->attention);
    weights += length * length;
    row += length;
  }

  // LSTM, time-major.
  float* down = grow(&act->gradient_c, rows * h);
  act->order.gather(dy, h, down);
  lstm_backward(lstm_[1], act->order, act->lstm[0].outputs.data(), act->lstm[1], down,
                {gradient(P::kLstm1Input), gradient(P::kLstm1Hidden), gradient(P::kLstm1Bias)}, dattended,
                &act->lstm_scratch);
  lstm_backward(lstm_[0], act->order, act->lstm_input.data(), act->lstm[0], dattended,
                {gradient(P::kLstm0Input), gradient(P::kLstm0Hidden), gradient(P::kLstm0Bias)}, down,
                &act->lstm_scratch);
  float* dcompressed = dattended;
  act->order.scatter(down, h, dcompressed);

  // Compression.
  relu_backward(act->compressed.data(), rows * h, dcompressed);
  add_weight_gradients(dcompressed, h, rows, h, {{batch.x, d_in, d_in, gradient(P::kCompressWeight)}},
                       &act->product);
  add_rows(dcompressed, h, rows, h, gradient(P::kCompressBias));
  if (!config().summary || batch.summaries == nullptr) return;
  float* sums = grow(&act->gradient_b, batch.lengths.size() * h);
  std::fill_n(sums, batch.lengths.size() * h, 0.0f);
  row = 0;
  for (size_t s = 0; s < batch.lengths.size(); row += batch.lengths[s], ++s) {
    add_rows(dcompressed + row * h, h, batch.lengths[s], h, sums + s * h);
  }
  add_weight_gradients(sums, h, batch.lengths.size(), h,
                       {{batch.summaries, d_in, d_in, gradient(P::kSummaryWeight)}}, &act->product);
}

}  // namespace sida
