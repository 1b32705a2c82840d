#include <algorithm>

#include "ops/cuda/choose_row.cuh"
#include "ops/cuda/norm_row.cuh"

namespace sida::cuda {
namespace {

constexpr unsigned kTokenWarps = 4;
/// One warp for each token.
template <bool kHolds>
__global__ void choose_tokens(const float* logits, size_t tokens, size_t experts, Router router, uint16_t* expert,
                              float* alpha) {
  const size_t token = blockIdx.x * size_t{kTokenWarps} + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const size_t choice = token * router.spec.top_k;
  auto* scratch =
      reinterpret_cast<Candidate*>(dynamic_shared()) + threadIdx.x / kWarp * scratch_candidates(router.spec);
  choose_row<kHolds>(logits + token * experts, experts, router, scratch, expert + choice, alpha + choice);
}

// Rounded after the product and after the sum, because the reference scales an output before it adds it.
__device__ float scaled_added(float sum, float scale, float value) { return __fadd_rn(sum, __fmul_rn(scale, value)); }
__device__ float4 scaled_added(float4 sum, float scale, float4 value) {
  return {scaled_added(sum.x, scale, value.x), scaled_added(sum.y, scale, value.y), scaled_added(sum.z, scale, value.z),
          scaled_added(sum.w, scale, value.w)};
}

constexpr unsigned kAddThreads = 512;

/// A block for each token, whose sum is normed by its first warp.
template <class Unit>
__global__ void add_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t k, size_t units,
                            float* hidden, RowNorm norm, float* normed) {
  const size_t token = blockIdx.x;
  Unit* row = reinterpret_cast<Unit*>(hidden) + token * units;
  for (size_t unit = threadIdx.x; unit < units; unit += blockDim.x) {
    Unit sum = row[unit];
    for (size_t choice = token * k; choice < (token + 1) * k && positions[choice] != kNoPosition; ++choice) {
      const auto* output = reinterpret_cast<const Unit*>(outputs) + positions[choice] * units;
      sum = scaled_added(sum, alpha[choice], output[unit]);
    }
    row[unit] = sum;
  }
  if (normed == nullptr) return;
  __syncthreads();
  if (threadIdx.x < kWarp) norm_row(row, norm, units, reinterpret_cast<Unit*>(normed) + token * units);
}

}  // namespace

void choose(const float* logits, size_t tokens, size_t experts, const Router& router, uint16_t* expert, float* alpha,
            cudaStream_t stream) {
  if (tokens == 0) return;
  launch(experts <= kHeld * kWarp ? choose_tokens<true> : choose_tokens<false>,
         {blocks_of(tokens, kTokenWarps), kTokenWarps * kWarp,
          kTokenWarps * scratch_candidates(router.spec) * sizeof(Candidate)},
         stream, logits, tokens, experts, router, expert, alpha);
}

void add_expert_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t tokens, size_t k,
                        size_t d, float* hidden, cudaStream_t stream, const RowNorm& norm, float* normed) {
  if (tokens == 0 || (k == 0 && normed == nullptr)) return;
  const bool whole = d % 4 == 0;
  const size_t units = whole ? d / 4 : d;
  const unsigned threads = std::min(kAddThreads, blocks_of(units, kWarp) * kWarp);
  launch(whole ? add_outputs<float4> : add_outputs<float>, {static_cast<unsigned>(tokens), threads}, stream, outputs,
         positions, alpha, k, units, hidden, norm, normed);
}

}  // namespace sida::cuda
