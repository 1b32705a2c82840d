#pragma once

#include <cstddef>

#include "device/device_memory.h"
#include "model/batch_limits.h"
#include "model/switch_config.h"
#include "ops/expert_ffn.h"

namespace sida {

/// Activations of one pass of at most `tokens` tokens. f32, row-major, allocated once.
struct CpuWorkspace {
  /// Rows of the feed-forward intermediate computed at a time.
  static constexpr size_t kFeedForwardRows = 256;

  static uint64_t bytes(const SwitchConfig& config, const BatchLimits& limits);

  CpuWorkspace(DeviceMemory& memory, const SwitchConfig& config, const BatchLimits& limits);

  DeviceBuffer memory;
  size_t tokens;
  size_t feed_forward_rows;
  size_t feed_forward_stride;
  size_t score_stride;  ///< floats of one query's scores
  float* hidden;        ///< (tokens, d_model)
  float* normed;        ///< (tokens, d_model)
  float* first;         ///< (tokens, max(d_model, heads · d_kv)): queries, gathered expert inputs
  /// Keys or values, same size; expert outputs, (tokens · max_routing_k, d_model).
  float* second;
  float* feed_forward;  ///< (feed_forward_rows, feed_forward_stride), d_ff of each row in use
  float* router;        ///< (tokens, experts)
  float* scores;        ///< (threads, 4, score_stride)
  float* encoder_bias;  ///< PositionBias over `tokens` positions
  float* decoder_bias;  ///< PositionBias over the KV cache's tokens, whole pages
  Int8Scratch int8;     ///< empty where activations are f32

  ExpertScratch expert_scratch() const {
    return {feed_forward_rows, first, feed_forward, feed_forward_stride, int8};
  }
};

}  // namespace sida
