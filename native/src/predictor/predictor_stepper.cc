#include "predictor/predictor_stepper.h"

#include <algorithm>

#include "core/error.h"

namespace sida {
namespace {

// Appends y (h) to the state's outputs, and as a column to its key panels.
PanelMatrix append_output(const float* y, size_t h, PredictorState* state) {
  const size_t column = state->length % kPanelColumns;
  if (column == 0) state->panels.resize((state->length / kPanelColumns + 1) * h * kPanelColumns);
  float* panel = state->panels.data() + state->length / kPanelColumns * h * kPanelColumns;
  for (size_t i = 0; i < h; ++i) panel[i * kPanelColumns + column] = y[i];
  state->outputs.insert(state->outputs.end(), y, y + h);
  return {reinterpret_cast<const std::byte*>(state->panels.data()), kF32Format, h, state->length + 1};
}

}  // namespace

size_t PredictorState::bytes() const {
  size_t floats = outputs.capacity() + panels.capacity() + summary.capacity();
  for (const AlignedFloats& layer : hidden) floats += layer.capacity();
  for (const AlignedFloats& layer : cells) floats += layer.capacity();
  size_t bytes = floats * sizeof(float);
  for (const HeadPages& block : pages) bytes += block.bytes();
  return bytes;
}

PredictorStepper::PredictorStepper(const PredictorNetwork& network) : network_(&network) {
  if (network.config().causal) return;
  throw Error("invalid_request",
              "Expected a causal predictor to step through a sequence, found one that sees the whole input");
}

void PredictorStepper::begin(PredictorState* state, const float* summary_product) const {
  const size_t h = network_->config().hidden;
  state->length = 0;
  const size_t blocks = network_->config().blocks;
  if (blocks == 0) {
    for (size_t l = 0; l < network_->config().lstm_layers; ++l) {
      state->hidden[l].assign(h, 0.0f);
      state->cells[l].assign(h, 0.0f);
    }
  }
  state->pages.resize(blocks);
  for (HeadPages& pages : state->pages) pages.begin(h / kHeadWidth);
  state->outputs.clear();
  state->panels.clear();
  state->summary.clear();
  if (summary_product != nullptr) state->summary.assign(summary_product, summary_product + h);
}

void PredictorStepper::run_lstm(size_t layer, std::span<PredictorState* const> states, const float* x, float* y) {
  const LstmLayer& lstm = network_->recurrent(layer).directions[0];
  const size_t h = lstm.hidden;
  const size_t rows = states.size();
  const size_t stride = lstm_gate_stride(h);
  float* gates = grow(&gates_, rows * stride);
  float* hidden = grow(&hidden_, rows * h);
  float* cells = grow(&cells_, rows * h);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(states[r]->hidden[layer].data(), h, hidden + r * h);
    std::copy_n(states[r]->cells[layer].data(), h, cells + r * h);
  }
  multiply(x, lstm.input.k, rows, lstm.input, gates, stride, Epilogue::kStore);
  lstm_step(lstm, rows, hidden, cells, gates, cells, grow(&cell_tanh_, rows * h), y);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(y + r * h, h, states[r]->hidden[layer].data());
    std::copy_n(cells + r * h, h, states[r]->cells[layer].data());
  }
}

void PredictorStepper::step(std::span<PredictorState* const> states, float* products, float* head_rows) {
  const size_t h = network_->config().hidden;
  const size_t rows = states.size();
  for (size_t r = 0; r < rows; ++r) {
    const AlignedFloats& summary = states[r]->summary;
    network_->finish_compress(1, summary.empty() ? nullptr : summary.data(), products + r * h);
  }
  const bool named = head_rows != nullptr;
  network_->config().blocks > 0 ? run_blocks(states, products) : run_recurrent(states, products, named);
  for (PredictorState* state : states) ++state->length;
  if (named) network_->heads(features_.data(), rows, head_rows);
}

void PredictorStepper::run_recurrent(std::span<PredictorState* const> states, float* products, bool named) {
  const size_t h = network_->config().hidden;
  const size_t rows = states.size();
  float* output = grow(&lstm_output_, rows * h);
  for (size_t l = 0; l < network_->config().lstm_layers; ++l) {
    if (l > 0) std::copy_n(output, rows * h, products);
    run_lstm(l, states, products, output);
  }
  float* attended = grow(&attended_, rows * h);
  for (size_t r = 0; r < rows; ++r) {
    const PanelMatrix keys = append_output(output + r * h, h, states[r]);
    // No later step reads what a token attends to.
    if (!named) continue;
    self_attention_step(states[r]->outputs.data(), keys, network_->config().attention_weights, grow(&weights_, keys.n),
                        attended + r * h);
  }
  if (named) network_->recurrent_features(attended, rows, grow(&residual_, rows * h), grow(&features_, rows * h));
}

void PredictorStepper::run_blocks(std::span<PredictorState* const> states, float* products) {
  const PredictorConfig& config = network_->config();
  blocks_.resize(config.blocks);
  for (size_t b = 0; b < config.blocks; ++b) {
    pages_.clear();
    for (PredictorState* state : states) pages_.push_back(&state->pages[b]);
    residual_block_step(network_->block(b), pages_, products, &blocks_[b], &block_scratch_);
  }
  network_->block_features(products, states.size(), grow(&features_, states.size() * config.hidden));
}

}  // namespace sida
