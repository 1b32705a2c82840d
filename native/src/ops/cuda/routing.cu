#include "ops/cuda/routing.h"
#include "ops/cuda/warp.h"

namespace sida::cuda {
namespace {

constexpr unsigned kTokenWarps = 4;
/// Logits a lane keeps between its three looks at them: 256 experts a warp. More are read again.
constexpr unsigned kHeld = 8;

/// A warp a token. As the softmax and std::max_element of route_top1(): where a logit is NaN or +inf, or all
/// are -inf, every probability is NaN, and the choice is expert 0 with an alpha of NaN.
template <bool kHolds>
__global__ void choose_top1_tokens(const float* logits, size_t tokens, size_t experts, uint16_t* expert,
                                   float* alpha) {
  const unsigned lane = threadIdx.x % kWarp;
  const size_t token = blockIdx.x * size_t{kTokenWarps} + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const float* row = logits + token * experts;
  float held[kHeld];
  // Calls look(value, index) for each of this lane's logits, in order.
  const auto each = [&](auto look) {
    if constexpr (kHolds) {
#pragma unroll
      for (unsigned i = 0; i < kHeld; ++i) {
        if (lane + i * kWarp < experts) look(held[i], lane + i * kWarp);
      }
    } else {
      for (size_t i = lane; i < experts; i += kWarp) look(row[i], i);
    }
  };
  if constexpr (kHolds) {
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      held[i] = lane + i * kWarp < experts ? row[lane + i * kWarp] : 0.0f;
    }
  }
  float top = -INFINITY;
  each([&](float logit, size_t) { top = fmaxf(top, logit); });
  top = warp_max(top);
  float sum = 0;
  each([&](float logit, size_t) { sum += expf(logit - top); });
  sum = warp_sum(sum);
  const float best = 1.0f / sum;
  // Logits may differ and their probabilities not: the first of the latter counts.
  auto first = static_cast<unsigned>(experts);
  each([&](float logit, size_t index) {
    if (first == experts && expf(logit - top) / sum >= best) first = static_cast<unsigned>(index);
  });
  for (unsigned step = 1; step < kWarp; step *= 2)
    first = min(first, __shfl_xor_sync(kAllLanes, first, step));
  if (lane != 0) return;
  expert[token] = static_cast<uint16_t>(first == experts ? 0 : first);
  alpha[token] = best;
}

// Rounded after the product and after the sum, as the reference does: it scales an output before it adds it.
__device__ float scaled_added(float sum, float scale, float value) {
  return __fadd_rn(sum, __fmul_rn(scale, value));
}
__device__ float4 scaled_added(float4 sum, float scale, float4 value) {
  return {scaled_added(sum.x, scale, value.x), scaled_added(sum.y, scale, value.y),
          scaled_added(sum.z, scale, value.z), scaled_added(sum.w, scale, value.w)};
}

constexpr unsigned kAddThreads = 128;

template <class Unit>
__global__ void add_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t k,
                            size_t units, float* hidden) {
  const size_t token = blockIdx.x;
  const size_t unit = blockIdx.y * size_t{kAddThreads} + threadIdx.x;
  if (unit >= units || positions[token * k] == kNoPosition) return;
  Unit& place = reinterpret_cast<Unit*>(hidden)[token * units + unit];
  Unit sum = place;
  for (size_t choice = token * k; choice < (token + 1) * k && positions[choice] != kNoPosition; ++choice) {
    const auto* output = reinterpret_cast<const Unit*>(outputs) + positions[choice] * units;
    sum = scaled_added(sum, alpha[choice], output[unit]);
  }
  place = sum;
}

}  // namespace

void choose_top1(const float* logits, size_t tokens, size_t experts, uint16_t* expert, float* alpha,
                 cudaStream_t stream) {
  if (tokens == 0) return;
  launch(experts <= kHeld * kWarp ? choose_top1_tokens<true> : choose_top1_tokens<false>,
         {blocks_of(tokens, kTokenWarps), kTokenWarps * kWarp}, stream, logits, tokens, experts, expert,
         alpha);
}

void add_expert_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t tokens,
                        size_t k, size_t d, float* hidden, cudaStream_t stream) {
  if (tokens == 0 || k == 0) return;
  const bool whole = d % 4 == 0;
  const size_t units = whole ? d / 4 : d;
  launch(whole ? add_outputs<float4> : add_outputs<float>,
         {{static_cast<unsigned>(tokens), blocks_of(units, kAddThreads)}, kAddThreads}, stream, outputs,
         positions, alpha, k, units, hidden);
}

}  // namespace sida::cuda
