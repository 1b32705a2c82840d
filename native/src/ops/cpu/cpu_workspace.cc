#include "ops/cpu/cpu_workspace.h"

#include <algorithm>

#include "model/relative_position.h"
#include "ops/ops.h"

namespace sida {
namespace {

constexpr size_t line(size_t floats) { return (floats + 15) / 16 * 16; }

/// The widest of all layers.
struct Widths {
  size_t query = 0, kv = 0, hidden = 0, rotary = 0;

  explicit Widths(const ModelSpec& spec) {
    for (const StackSpec& stack : spec.stacks) {
      if (const auto* rope = std::get_if<Rope>(&stack.positions)) rotary = std::max(rotary, rope->width());
      for (const LayerSpec& layer : stack.layers) {
        add(layer.self);
        if (layer.cross) add(*layer.cross);
        const MoeSpec* moe = layer.moe();
        hidden = std::max(hidden, moe != nullptr ? moe->expert.width : std::get<FfnSpec>(layer.feed_forward).width);
      }
    }
  }

 private:
  void add(const AttentionSpec& attention) {
    query = std::max(query, attention.query_width());
    kv = std::max(kv, attention.kv_width());
  }
};

struct Sizes {
  size_t hidden, queries, keys, outputs, feed_forward_rows, feed_forward_stride, feed_forward, router, score_stride,
      scores, rotary, int8;
  std::vector<size_t> bias_positions, biases;

  Sizes(const ModelSpec& spec, const BatchLimits& limits) {
    const Widths widths(spec);
    const size_t tokens = limits.max_batch_tokens;
    // The cache holds whole pages, and a query may see every token in them.
    const size_t positions = line(limits.kv_tokens);
    hidden = line(tokens * spec.width);
    feed_forward_rows = std::min(tokens, CpuWorkspace::kFeedForwardRows);
    queries = line(std::max({tokens * widths.query, feed_forward_rows * spec.width, kMaxLogitRows * spec.width}));
    keys = line(tokens * widths.kv);
    outputs = line(tokens * std::max(limits.max_routing_k, spec.top_k()) * spec.width);
    // Rows a multiple of 4 KiB apart would compete for the same lines of the L1 cache.
    feed_forward_stride = line(widths.hidden) + 16;
    feed_forward = feed_forward_rows * feed_forward_stride;
    router = line(tokens * spec.experts());
    score_stride = line(std::max(tokens, positions));
    scores = limits.threads * 4 * score_stride;
    rotary = line(tokens * widths.rotary);
    for (const StackSpec& stack : spec.stacks) {
      const bool biased = std::holds_alternative<RelativeBias>(stack.positions) && !stack.layers.empty();
      bias_positions.push_back(stack.causal ? positions : tokens);
      biases.push_back(biased ? line(PositionBias::floats(stack.layers[0].self.heads, bias_positions.back())) : 0);
    }
    const size_t widest = std::max({spec.width, widths.hidden, widths.query});
    // The smallest groups have the most sums.
    const WeightFormat largest{WeightType::kInt4, 32};
    int8 = limits.activations == ActivationFormat::kF32
               ? 0
               : line(quantized_bytes(std::min(tokens, kInt8Rows), widest, largest) / sizeof(float) + 1);
  }
  size_t floats() const {
    size_t sum = 2 * hidden + queries + std::max(2 * keys, outputs) + feed_forward + router + scores + rotary + int8;
    for (const size_t bias : biases) sum += bias;
    return sum;
  }
};

}  // namespace

uint64_t CpuWorkspace::bytes(const ModelSpec& spec, const BatchLimits& limits) {
  return Sizes(spec, limits).floats() * sizeof(float);
}

CpuWorkspace::CpuWorkspace(DeviceMemory& device, const ModelSpec& spec, const BatchLimits& limits)
    : memory(device, bytes(spec, limits)) {
  const Sizes sizes(spec, limits);
  feed_forward_rows = sizes.feed_forward_rows;
  feed_forward_stride = sizes.feed_forward_stride;
  score_stride = sizes.score_stride;
  bias_positions = sizes.bias_positions;
  float* next = memory.floats();
  const auto take = [&](size_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  hidden = take(sizes.hidden);
  normed = take(sizes.hidden);
  queries = take(sizes.queries);
  outputs = take(std::max(2 * sizes.keys, sizes.outputs));
  keys = outputs;
  values = keys + sizes.keys;
  feed_forward = take(sizes.feed_forward);
  router = take(sizes.router);
  scores = take(sizes.scores);
  rotary = take(sizes.rotary);
  for (const size_t bias : sizes.biases) biases.push_back(bias == 0 ? nullptr : take(bias));
  int8 = {reinterpret_cast<std::byte*>(take(sizes.int8)), sizes.int8 * sizeof(float)};
}

}  // namespace sida
