#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace sida::cuda {

/// The top-1 choice of each token from router logits (tokens, experts): the first of equal maxima, and its
/// softmax probability in f32. `expert` and `alpha` (tokens). All pointers are the device's.
void choose_top1(const float* logits, size_t tokens, size_t experts, uint16_t* expert, float* alpha,
                 cudaStream_t stream);

/// Stands for no position in `positions` of add_expert_outputs().
inline constexpr uint32_t kNoPosition = UINT32_MAX;

/// hidden (tokens, d) += Σ_j alpha[t, j] · outputs[positions[t, j]], in the order of j, up to the first
/// kNoPosition. `outputs` (.., d), `positions` and `alpha` (tokens, k). All pointers are the device's.
void add_expert_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t tokens,
                        size_t k, size_t d, float* hidden, cudaStream_t stream);

}  // namespace sida::cuda
