#include "model/cuda/cuda_workspace.h"

#include <algorithm>

#include "model/cuda/pass_uploads.h"
#include "model/kv_cache.h"
#include "model/relative_position.h"

namespace sida {
namespace {

// What tensor cores and vector loads like.
constexpr size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Sizes {
  size_t hidden, first, second, third, feed_forward, router, alpha, expert, logits, encoder_bias,
      decoder_bias, products, uploads;

  Sizes(const SwitchConfig& config, const BatchLimits& limits) {
    const size_t tokens = limits.max_batch_tokens, choices = tokens * limits.max_routing_k;
    const auto d = static_cast<size_t>(config.d_model), d_ff = static_cast<size_t>(config.d_ff);
    const auto inner = static_cast<size_t>(config.num_heads) * static_cast<size_t>(config.d_kv);
    const auto experts = static_cast<size_t>(config.num_experts);
    const auto vocab = static_cast<size_t>(config.vocab_size);
    const size_t positions = KvCache::pages_for(limits.kv_tokens) * kPageTokens;
    const auto floats = [](size_t count) { return aligned(count * sizeof(float)); };
    hidden = floats(tokens * d);
    first = floats(tokens * std::max(d, inner));
    second = floats(choices * std::max(d, inner));
    third = floats(tokens * inner);
    feed_forward = floats(choices * d_ff);
    router = floats(tokens * experts);
    alpha = floats(tokens);
    expert = aligned(tokens * sizeof(uint16_t));
    logits = floats(std::min(tokens, kHeadRows) * vocab);
    encoder_bias = floats(PositionBias::floats(config, tokens));
    decoder_bias = floats(PositionBias::floats(config, positions));
    uploads = aligned(PassUploads::bytes(config, limits));
  }
  static constexpr size_t kHeadRows = CudaWorkspace::kHeadRows;
  size_t bytes() const {
    return 2 * hidden + first + second + third + feed_forward + router + alpha + expert + logits +
           encoder_bias + decoder_bias + uploads;
  }
};

}  // namespace

uint64_t CudaWorkspace::bytes(const SwitchConfig& config, const BatchLimits& limits) {
  return Sizes(config, limits).bytes();
}

CudaWorkspace::CudaWorkspace(DeviceMemory& device, const SwitchConfig& config, const BatchLimits& limits)
    : memory(device, bytes(config, limits)) {
  const Sizes sizes(config, limits);
  std::byte* next = memory.data();
  const auto take = [&]<class T>(T*& pointer, size_t bytes) {
    pointer = reinterpret_cast<T*>(next);
    next += bytes;
  };
  take(hidden, sizes.hidden);
  take(normed, sizes.hidden);
  take(first, sizes.first);
  take(second, sizes.second);
  take(third, sizes.third);
  take(feed_forward, sizes.feed_forward);
  take(router, sizes.router);
  take(alpha, sizes.alpha);
  take(expert, sizes.expert);
  take(logits, sizes.logits);
  take(encoder_bias, sizes.encoder_bias);
  take(decoder_bias, sizes.decoder_bias);
  take(uploads, sizes.uploads);
  upload_bytes = sizes.uploads;
}

}  // namespace sida
