// The loading part of PredictorNetwork.
#include <exception>
#include <vector>

#include "predictor/predictor_network.h"

namespace sida {
namespace {

// Panel matrices of a predictor with all blocks, forward and backward.
constexpr size_t kMaxPacked = 8 + 8 * (kMaxPredictorBlocks + kMaxLstmLayers);

}  // namespace

PredictorNetwork::PredictorNetwork(const PredictorConfig& config, NetworkUse use)
    : layout_(config), use_(use), packed_(kMaxPacked) {}

void PredictorNetwork::add_forward(const float* weights, PredictorPart id, size_t n, size_t k, PanelMatrix* out,
                                   PackTasks* tasks) {
  const float* from = weights + layout_.offset(id);
  AlignedFloats* room = &packed_[tasks->size()];
  // A token's products are computed once, so int8 would save little time there.
  const bool compresses = id == PredictorPart::kCompressWeight || id == PredictorPart::kSummaryWeight;
  const WeightFormat format = use_ == NetworkUse::kTokens && !compresses ? kInt8Format : kF32Format;
  tasks->emplace_back([=] { *out = pack_transposed(from, n, k, room, format); });
}

void PredictorNetwork::add_backward(const float* weights, PredictorPart id, size_t n, size_t k, PanelMatrix* out,
                                    PackTasks* tasks) {
  if (use_ != NetworkUse::kTraining) return;
  const float* from = weights + layout_.offset(id);
  AlignedFloats* room = &packed_[tasks->size()];
  tasks->emplace_back([=] { *out = pack_rows(from, k, n, k, room); });
}

void PredictorNetwork::load_recurrent(const float* weights, PackTasks* tasks) {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t units = config().units();
  for (size_t l = 0; l < config().lstm_layers; ++l) {
    recurrent_[l].count = config().directions();
    for (size_t d = 0; d < recurrent_[l].count; ++d) {
      const LstmParts parts = lstm_parts(l, d);
      LstmLayer& lstm = recurrent_[l].directions[d];
      lstm.hidden = units;
      lstm.bias = bias(parts.bias);
      add_forward(weights, parts.input, 4 * units, h, &lstm.input, tasks);
      add_forward(weights, parts.hidden, 4 * units, units, &lstm.recurrent, tasks);
      add_backward(weights, parts.input, 4 * units, h, &lstm.input_back, tasks);
      add_backward(weights, parts.hidden, 4 * units, units, &lstm.hidden_back, tasks);
    }
  }
  add_forward(weights, P::kResidualWeight, h, h, &residual_, tasks);
  add_backward(weights, P::kResidualWeight, h, h, &residual_back_, tasks);
}

void PredictorNetwork::load_blocks(const float* weights, PackTasks* tasks) {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const auto scale = [&](P id) {
    std::vector<float> values(weights + layout_.offset(id), weights + layout_.offset(id) + h);
    for (float& value : values) value += 1.0f;
    return values;
  };
  final_norm_ = scale(P::kFinalNorm);
  blocks_.resize(config().blocks);
  for (size_t b = 0; b < blocks_.size(); ++b) {
    ResidualBlock& block = blocks_[b];
    const auto of = [&](P id) { return block_part(id, b); };
    block.hidden = h;
    block.attention_norm = scale(of(P::kBlockAttentionNorm));
    block.ffn_norm = scale(of(P::kBlockFeedForwardNorm));
    block.ffn_bias = biases_[static_cast<size_t>(of(P::kBlockFeedForwardBias))];
    block.position_table = biases_[static_cast<size_t>(of(P::kBlockPositions))];
    add_forward(weights, of(P::kBlockQkv), 3 * h, h, &block.qkv, tasks);
    add_forward(weights, of(P::kBlockAttentionOut), h, h, &block.attention_out, tasks);
    add_forward(weights, of(P::kBlockFeedForwardUp), 2 * h, h, &block.ffn_up, tasks);
    add_forward(weights, of(P::kBlockFeedForwardDown), h, 2 * h, &block.ffn_down, tasks);
    add_backward(weights, of(P::kBlockQkv), 3 * h, h, &block.qkv_back, tasks);
    add_backward(weights, of(P::kBlockAttentionOut), h, h, &block.attention_out_back, tasks);
    add_backward(weights, of(P::kBlockFeedForwardUp), 2 * h, h, &block.ffn_up_back, tasks);
    add_backward(weights, of(P::kBlockFeedForwardDown), h, 2 * h, &block.ffn_down_back, tasks);
  }
}

void PredictorNetwork::load(const float* weights, ThreadPool* pool) {
  using P = PredictorPart;
  const size_t h = config().hidden;
  const size_t heads = config().layers * config().experts;
  for (size_t i = 0; i < kPredictorParts; ++i) {
    const PredictorTensor& tensor = layout_.tensors()[i];
    if (!tensor.name.ends_with(".bias")) continue;
    biases_[i].assign(weights + tensor.offset, weights + tensor.offset + tensor.count);
  }
  PackTasks tasks;
  add_forward(weights, P::kCompressWeight, h, config().d_in, &compress_, &tasks);
  if (config().summary) add_forward(weights, P::kSummaryWeight, h, config().d_in, &summary_, &tasks);
  config().blocks > 0 ? load_blocks(weights, &tasks) : load_recurrent(weights, &tasks);
  add_forward(weights, P::kHeadWeight, heads, h, &heads_, &tasks);
  add_backward(weights, P::kHeadWeight, heads, h, &heads_back_, &tasks);
  if (pool == nullptr) {
    for (const auto& task : tasks) task();
    return;
  }
  // Tasks allocate, and the pool's must not throw.
  std::vector<std::exception_ptr> errors(tasks.size());
  pool->parallel_for(tasks.size(), [&](size_t task, size_t) {
    try {
      tasks[task]();
    } catch (...) {
      errors[task] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

size_t PredictorNetwork::bytes() const {
  size_t floats = 0;
  for (const AlignedFloats& room : packed_) floats += room.capacity();
  for (const std::vector<float>& bias : biases_) floats += bias.capacity();
  return floats * sizeof(float);
}

}  // namespace sida
