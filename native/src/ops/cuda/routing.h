#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda/rows.h"
#include "spec/spec.h"

namespace sida::cuda {

struct Router {
  RouterSpec spec;
  const float* correction = nullptr;  ///< as in TokenLogits
  const float* factors = nullptr;     ///< (experts), of their alphas; null: 1
};

/// As choose_experts() for each token from router logits (tokens, experts), but the sums of a softmax over all experts
/// have another order, and its exp() other bits. Writes `expert` and `alpha` (tokens, top_k). `logits` are in device
/// memory; the results may go to page-locked memory of the host.
void choose(const float* logits, size_t tokens, size_t experts, const Router& router, uint16_t* expert, float* alpha,
            cudaStream_t stream);

/// Bytes of `alpha` and `expert` of choose(), one behind the other; a multiple of 4.
constexpr size_t choices_bytes(size_t tokens, size_t k) {
  const size_t bytes = tokens * k * (sizeof(float) + sizeof(uint16_t));
  return (bytes + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

/// Stands for no position in `positions` of add_expert_outputs().
inline constexpr uint32_t kNoPosition = UINT32_MAX;

/// hidden (tokens, d) += Σ_j alpha[t, j] · outputs[positions[t, j]], in the order of j, up to the first kNoPosition.
/// `outputs` (.., d), `positions` and `alpha` (tokens, k). All pointers are to device memory. Unless `normed` (tokens,
/// d) is null, it becomes the norm of hidden.
void add_expert_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t tokens, size_t k,
                        size_t d, float* hidden, cudaStream_t stream, const RowNorm& norm = {},
                        float* normed = nullptr);

}  // namespace sida::cuda
