#include "model/workspace.h"

#include <algorithm>

#include "model/relative_position.h"

namespace sida {
namespace {

constexpr size_t line(size_t floats) { return (floats + 15) / 16 * 16; }

struct Sizes {
  size_t hidden, wide, second, feed_forward_rows, feed_forward, router, score_stride, scores, encoder_bias,
      decoder_bias;

  Sizes(const SwitchConfig& config, size_t tokens, size_t kv_tokens, size_t threads, size_t max_routing_k) {
    // The cache holds whole pages, and a query may see every token in them.
    const size_t positions = line(kv_tokens);
    const auto d = static_cast<size_t>(config.d_model);
    hidden = line(tokens * d);
    wide =
        line(tokens * std::max(d, static_cast<size_t>(config.num_heads) * static_cast<size_t>(config.d_kv)));
    second = std::max(wide, line(tokens * max_routing_k * d));
    feed_forward_rows = std::min(tokens, Workspace::kFeedForwardRows);
    feed_forward = line(feed_forward_rows * static_cast<size_t>(config.d_ff));
    router = line(tokens * static_cast<size_t>(config.num_experts));
    score_stride = line(std::max(tokens, positions));
    scores = threads * 4 * score_stride;
    encoder_bias = line(PositionBias::floats(config, tokens));
    decoder_bias = line(PositionBias::floats(config, positions));
  }
  size_t floats() const {
    return 2 * hidden + wide + second + feed_forward + router + scores + encoder_bias + decoder_bias;
  }
};

}  // namespace

uint64_t Workspace::bytes(const SwitchConfig& config, size_t tokens, size_t kv_tokens, size_t threads,
                          size_t max_routing_k) {
  return Sizes(config, tokens, kv_tokens, threads, max_routing_k).floats() * sizeof(float);
}

Workspace::Workspace(DeviceMemory& device, const SwitchConfig& config, size_t tokens_, size_t kv_tokens,
                     size_t threads, size_t max_routing_k)
    : memory(device, bytes(config, tokens_, kv_tokens, threads, max_routing_k)), tokens(tokens_) {
  const Sizes sizes(config, tokens, kv_tokens, threads, max_routing_k);
  feed_forward_rows = sizes.feed_forward_rows;
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
}

}  // namespace sida
