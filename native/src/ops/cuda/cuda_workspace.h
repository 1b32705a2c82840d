#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "ops/cuda/find_experts.h"
#include "ops/ops.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"

namespace sida {

/// The working memory of CudaOps, allocated once. Attention, feed-forward networks and the head share one part of it
/// and overwrite each other's data there.
struct CudaWorkspace {
  static uint64_t bytes(const ModelSpec& spec, const BatchLimits& limits);

  CudaWorkspace(DeviceMemory& memory, const ModelSpec& spec, const BatchLimits& limits);

  DeviceBuffer memory;
  Activations activations;

  unsigned* arrived;  ///< (1) of GemmEnd

  float* latent_queries;  ///< (kLatentTiles · kTileRows, heads, cached row)
  float* latent_outputs;  ///< the same

  float* router;   ///< (tokens, experts): logits
  float* gates;    ///< (tokens, 1 or 2): of shared experts' outputs
  float* up;       ///< inputs of the down projection: (tokens, dense width) or (choices, expert width)
  float* outputs;  ///< (choices, width), by expert

  /// Of cuda::RoundedRows, where activations are int8: a product's inputs, and the hidden layer of all experts.
  std::byte* rounded;
  std::byte* rounded_hidden;

  float* head_rows;  ///< (kMaxLogitRows, width)
  float* logits;     ///< (kMaxLogitRows, vocab)

  /// By stack: PositionBias over bias_positions(); null where the stack has none.
  std::vector<float*> biases;
  std::byte* uploads;  ///< of PassUploads
  size_t upload_bytes;
  std::byte* expert_table;             ///< of cuda::table_at(); null where limits turn off passes without the host
  cuda::DeviceChoices device_choices;  ///< of such a pass

 private:
  struct Arena;
  CudaWorkspace() = default;
  void lay_out(Arena& arena, const ModelSpec& spec, const BatchLimits& limits);
};

/// Tiles of rows whose latent attention is computed at a time, to bound its memory.
inline constexpr size_t kLatentTiles = 4;

/// Positions that a stack's relative bias covers. A stack that is not causal gets whole sequences in one pass.
size_t bias_positions(const StackSpec& stack, const BatchLimits& limits);

/// Most experts of a token: the router's top-k, or what a batch's routing may name.
size_t max_choices(const ModelSpec& spec, const BatchLimits& limits);

}  // namespace sida
