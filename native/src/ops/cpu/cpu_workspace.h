#pragma once

#include <cstddef>
#include <vector>

#include "device/device_memory.h"
#include "ops/cpu/expert_ffn.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"

namespace sida {

/// Activations of one pass of at most `tokens` tokens. f32, row-major, allocated once.
struct CpuWorkspace {
  /// Rows of the feed-forward intermediate computed at a time.
  static constexpr size_t kFeedForwardRows = 256;

  /// Most query rows of one part of attention.
  static constexpr size_t kAttentionRows = 16;

  static uint64_t bytes(const ModelSpec& spec, const BatchLimits& limits);

  CpuWorkspace(DeviceMemory& memory, const ModelSpec& spec, const BatchLimits& limits);

  DeviceBuffer memory;
  size_t feed_forward_rows;
  size_t feed_forward_stride;
  size_t score_stride;    ///< floats of one query's scores
  float* hidden;          ///< (tokens, width)
  float* normed;          ///< (tokens, width)
  float* branch;          ///< (tokens, width); null where no layer has post-norms
  float* queries;         ///< (tokens, query width); also the gathered inputs of experts and of the head
  float* keys;            ///< (tokens, kv width)
  float* values;          ///< (tokens, kv width)
  float* outputs;         ///< of experts, (choices, width); shares its memory with keys and values
  float* feed_forward;    ///< (feed_forward_rows, feed_forward_stride), the hidden layer of each row in use
  float* router;          ///< (tokens, experts)
  float* router_scratch;  ///< (tokens, experts): of choose_experts()
  float* gates;           ///< (tokens, 1 or 2): of shared experts' outputs
  float* scores;          ///< (threads, kScoreRows, score_stride)
  float* latent;          ///< (threads, 2, kAttentionRows, latent row in whole lines): queries and outputs of a part
  float* rotary;          ///< of each kind of positions (tokens, rotary width): cosines, then sines of each token
  /// By stack: PositionBias over `bias_positions` positions; null where the stack has none.
  std::vector<float*> biases;
  std::vector<size_t> bias_positions;
  RoundedScratch rounded;

  ExpertScratch expert_scratch() const {
    return {feed_forward_rows, queries, feed_forward, feed_forward_stride, rounded};
  }
};

}  // namespace sida
