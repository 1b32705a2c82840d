#include "model/cpu_workspace.h"

#include <algorithm>

#include "model/relative_position.h"

namespace sida {
namespace {

constexpr size_t line(size_t floats) { return (floats + 15) / 16 * 16; }

struct Sizes {
  size_t hidden, wide, second, feed_forward_rows, feed_forward_stride, feed_forward, router, score_stride,
      scores, encoder_bias, decoder_bias, int8;

  Sizes(const SwitchConfig& config, const BatchLimits& limits) {
    const size_t tokens = limits.max_batch_tokens;
    // The cache holds whole pages, and a query may see every token in them.
    const size_t positions = line(limits.kv_tokens);
    const auto d = static_cast<size_t>(config.d_model);
    hidden = line(tokens * d);
    wide =
        line(tokens * std::max(d, static_cast<size_t>(config.num_heads) * static_cast<size_t>(config.d_kv)));
    second = std::max(wide, line(tokens * limits.max_routing_k * d));
    feed_forward_rows = std::min(tokens, CpuWorkspace::kFeedForwardRows);
    const auto d_ff = static_cast<size_t>(config.d_ff);
    // Rows a multiple of 4 KiB apart would compete for the same lines of the first cache.
    feed_forward_stride = line(d_ff) + 16;
    feed_forward = feed_forward_rows * feed_forward_stride;
    router = line(tokens * static_cast<size_t>(config.num_experts));
    score_stride = line(std::max(tokens, positions));
    scores = limits.threads * 4 * score_stride;
    encoder_bias = line(PositionBias::floats(config, tokens));
    decoder_bias = line(PositionBias::floats(config, positions));
    const size_t widest = std::max({d, d_ff, static_cast<size_t>(config.num_heads * config.d_kv)});
    // The smallest groups have the most sums.
    const WeightFormat largest{WeightType::kInt4, 32};
    int8 = limits.activations == Activations::kF32
               ? 0
               : line(quantized_bytes(std::min(tokens, kInt8Rows), widest, largest) / sizeof(float) + 1);
  }
  size_t floats() const {
    return 2 * hidden + wide + second + feed_forward + router + scores + encoder_bias + decoder_bias + int8;
  }
};

}  // namespace

uint64_t CpuWorkspace::bytes(const SwitchConfig& config, const BatchLimits& limits) {
  return Sizes(config, limits).floats() * sizeof(float);
}

CpuWorkspace::CpuWorkspace(DeviceMemory& device, const SwitchConfig& config, const BatchLimits& limits)
    : memory(device, bytes(config, limits)), tokens(limits.max_batch_tokens) {
  const Sizes sizes(config, limits);
  feed_forward_rows = sizes.feed_forward_rows;
  feed_forward_stride = sizes.feed_forward_stride;
  score_stride = sizes.score_stride;
  float* next = memory.floats();
  const auto take = [&](size_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  hidden = take(sizes.hidden);
  normed = take(sizes.hidden);
  first = take(sizes.wide);
  second = take(sizes.second);
  feed_forward = take(sizes.feed_forward);
  router = take(sizes.router);
  scores = take(sizes.scores);
  encoder_bias = take(sizes.encoder_bias);
  decoder_bias = take(sizes.decoder_bias);
  int8 = {reinterpret_cast<std::byte*>(take(sizes.int8)), sizes.int8 * sizeof(float)};
}

}  // namespace sida
