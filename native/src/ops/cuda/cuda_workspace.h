#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "model/batch_limits.h"
#include "model/spec.h"
#include "ops/ops.h"

namespace sida {

/// What CudaOps works in, allocated once. Attention, feed-forward networks and the head take turns at one part of it:
/// what one of them leaves there, the others overwrite.
struct CudaWorkspace {
  static uint64_t bytes(const ModelSpec& spec, const BatchLimits& limits);

  CudaWorkspace(DeviceMemory& memory, const ModelSpec& spec, const BatchLimits& limits);

  DeviceBuffer memory;
  Activations activations;

  float* router;      ///< (tokens, experts): logits
  std::byte* chosen;  ///< of choose(): (tokens, top_k) f32 alphas, then as many u16 experts
  float* up;          ///< (tokens, width of a dense network) or (choices, width of an expert): what `down` takes
  float* outputs;     ///< (choices, width), by expert

  float* head_rows;  ///< (kMaxLogitRows, width)
  float* logits;     ///< (kMaxLogitRows, vocab)

  /// By stack: PositionBias over bias_positions(); null without.
  std::vector<float*> biases;
  std::byte* uploads;  ///< of PassUploads
  size_t upload_bytes;

 private:
  struct Arena;
  CudaWorkspace() = default;
  void lay_out(Arena& arena, const ModelSpec& spec, const BatchLimits& limits);
};

/// Positions that a stack's relative bias covers. A stack that is not causal has its sequences whole in one pass.
size_t bias_positions(const StackSpec& stack, const BatchLimits& limits);

/// Experts that a token may go to: as the router chooses, or as a batch's routing names them.
size_t max_choices(const ModelSpec& spec, const BatchLimits& limits);

}  // namespace sida
