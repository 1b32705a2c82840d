#include "ops/cpu/cpu_workspace.h"

#include <algorithm>

#include "ops/cpu/choose_experts.h"
#include "ops/cpu/kernels.h"
#include "ops/ops.h"
#include "spec/layer_widths.h"
#include "spec/relative_position.h"

namespace sida {
namespace {

constexpr size_t line(size_t floats) { return (floats + 15) / 16 * 16; }

struct Sizes {
  size_t hidden, branch, queries, keys, values, outputs, feed_forward_rows, feed_forward_stride, feed_forward, router,
      router_scratch, gates, score_stride, scores, latent, rotary, rounded;
  std::vector<size_t> bias_positions, biases;

  Sizes(const ModelSpec& spec, const BatchLimits& limits) {
    const LayerWidths widths(spec);
    const size_t widest_hidden = std::max(widths.dense, widths.expert);
    const size_t tokens = limits.max_batch_tokens;
    // The cache holds whole pages, and a query may see every token in them.
    const size_t positions = line(limits.kv_tokens);
    hidden = line(tokens * spec.width);
    branch = line(tokens * widths.branch);
    feed_forward_rows = std::min(tokens, CpuWorkspace::kFeedForwardRows);
    queries = line(std::max({tokens * widths.query, feed_forward_rows * spec.width, kMaxLogitRows * spec.width}));
    keys = line(tokens * widths.key);
    values = line(tokens * widths.value);
    outputs = line(tokens * std::max(limits.max_routing_k, spec.top_k()) * spec.width);
    // Rows a multiple of 4 KiB apart would compete for the same lines of the L1 cache.
    feed_forward_stride = line(widest_hidden) + 16;
    feed_forward = feed_forward_rows * feed_forward_stride;
    router = line(tokens * spec.experts());
    const bool adjusts = spec.moe() != nullptr && adjusts_choice(spec.moe()->router);
    router_scratch = adjusts ? router : 0;
    gates = line(tokens * widths.gates);
    score_stride = line(std::max(tokens, positions));
    scores = limits.threads * kScoreRows * score_stride;
    latent = limits.threads * 2 * CpuWorkspace::kAttentionRows * widths.latent;
    rotary = line(tokens * widths.rotary);
    for (const StackSpec& stack : spec.stacks) {
      const bool biased = std::holds_alternative<RelativeBias>(stack.positions) && !stack.layers.empty();
      bias_positions.push_back(stack.causal ? positions : tokens);
      biases.push_back(biased ? line(PositionBias::floats(stack.attention().heads, bias_positions.back())) : 0);
    }
    const size_t widest = std::max({spec.width, widest_hidden, widths.query, widths.value});
    rounded = line(rounded_bytes(std::min(tokens, kRoundedRows), widest, limits.activations) / sizeof(float));
  }
  size_t floats() const {
    size_t sum = 2 * hidden + branch + queries + std::max(keys + values, outputs) + feed_forward + router +
                 router_scratch + gates + scores + latent + rotary + rounded;
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
  branch = sizes.branch == 0 ? nullptr : take(sizes.branch);
  queries = take(sizes.queries);
  outputs = take(std::max(sizes.keys + sizes.values, sizes.outputs));
  keys = outputs;
  values = keys + sizes.keys;
  feed_forward = take(sizes.feed_forward);
  router = take(sizes.router);
  router_scratch = take(sizes.router_scratch);
  gates = take(sizes.gates);
  scores = take(sizes.scores);
  latent = take(sizes.latent);
  rotary = take(sizes.rotary);
  for (const size_t bias : sizes.biases) biases.push_back(bias == 0 ? nullptr : take(bias));
  rounded = {limits.activations, {reinterpret_cast<std::byte*>(take(sizes.rounded)), sizes.rounded * sizeof(float)}};
}

}  // namespace sida
