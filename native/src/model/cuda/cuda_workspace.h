#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_memory.h"
#include "model/batch_limits.h"
#include "model/switch_config.h"

namespace sida {

/// Activations of one pass on a GPU, allocated once. f32 and row-major unless said.
struct CudaWorkspace {
  /// Rows of logits computed at a time.
  static constexpr size_t kHeadRows = 64;

  static uint64_t bytes(const SwitchConfig& config, const BatchLimits& limits);

  CudaWorkspace(DeviceMemory& memory, const SwitchConfig& config, const BatchLimits& limits);

  DeviceBuffer memory;
  float* hidden;        ///< (tokens, d_model)
  float* normed;        ///< (tokens, d_model)
  float* first;         ///< (tokens, max(d_model, heads · d_kv)): queries, inputs of the head
  float* second;        ///< (tokens · max_routing_k, max(d_model, heads · d_kv)): keys, outputs of experts
  float* third;         ///< (tokens, heads · d_kv): values
  float* feed_forward;  ///< (tokens · max_routing_k, d_ff)
  float* router;        ///< (tokens, experts)
  float* alpha;         ///< (tokens): of the routers' choices
  uint16_t* expert;     ///< (tokens): the routers' choices
  float* logits;        ///< (kHeadRows, vocab)
  float* encoder_bias;  ///< PositionBias over `tokens` positions
  float* decoder_bias;  ///< PositionBias over the KV cache's tokens, whole pages
  std::byte* uploads;   ///< of PassUploads
  size_t upload_bytes;
};

}  // namespace sida
