#include <climits>

#include "ops/cuda/routing.h"
#include "ops/cuda/warp.h"

namespace sida::cuda {
namespace {

constexpr unsigned kTokenWarps = 4;
/// Logits that a lane keeps in registers, for 256 experts a warp. With more experts they are read again.
constexpr unsigned kHeld = 8;

/// A probability and the index of its expert.
struct Candidate {
  float probability = -1;
  unsigned index = UINT_MAX;

  __device__ bool before(const Candidate& other) const {
    return probability > other.probability || (probability == other.probability && index < other.index);
  }
};

/// The first of a warp's candidates, in every lane.
__device__ Candidate warp_first(Candidate best) {
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, best.probability, step),
                          __shfl_xor_sync(kAllLanes, best.index, step)};
    if (other.before(best)) best = other;
  }
  return best;
}

/// One warp for each token. As in the CPU's softmax, every probability is NaN where a logit is NaN or +inf, or all are
/// -inf.
template <bool kHolds>
__global__ void choose_tokens(const float* logits, size_t tokens, size_t experts, TopChoices top, uint16_t* expert,
                              float* alpha) {
  const unsigned lane = threadIdx.x % kWarp;
  const size_t token = blockIdx.x * size_t{kTokenWarps} + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const float* row = logits + token * experts;
  float held[kHeld];
  // Calls look(value, index) for each of this lane's logits, in order. Logits in registers have become probabilities by
  // the second use.
  const auto each = [&](auto look) {
    if constexpr (kHolds) {
#pragma unroll
      for (unsigned i = 0; i < kHeld; ++i) {
        if (lane + i * kWarp < experts) look(held[i], lane + i * kWarp);
      }
    } else {
      for (size_t i = lane; i < experts; i += kWarp) look(row[i], static_cast<unsigned>(i));
    }
  };
  if constexpr (kHolds) {
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      held[i] = lane + i * kWarp < experts ? row[lane + i * kWarp] : 0.0f;
    }
  }
  float most = -INFINITY;
  each([&](float logit, unsigned) { most = fmaxf(most, logit); });
  most = warp_max(most);
  float sum = 0;
  each([&](float logit, unsigned) { sum += expf(logit - most); });
  sum = warp_sum(sum);
  expert += token * top.k;
  alpha += token * top.k;
  // Results are written once, as the host's memory is far.
  auto* chosen = reinterpret_cast<Candidate*>(dynamic_shared()) + threadIdx.x / kWarp * top.k;
  if (sum != sum) {
    for (size_t i = lane; i < top.k; i += kWarp) {
      expert[i] = static_cast<uint16_t>(i);
      alpha[i] = sum;
    }
    return;
  }
  if constexpr (kHolds) {
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) held[i] = expf(held[i] - most) / sum;
  }
  // Different logits may have equal probabilities; the first of these is chosen. Each choice is the next one in the
  // order of all, so that no list of earlier choices is needed.
  Candidate last{INFINITY, 0};
  float total = 0;
  for (size_t i = 0; i < top.k; ++i) {
    Candidate best;
    each([&](float value, unsigned index) {
      const Candidate next{kHolds ? value : expf(value - most) / sum, index};
      if (last.before(next) && next.before(best)) best = next;
    });
    last = warp_first(best);
    total += last.probability;
    if (lane == 0) chosen[i] = last;
  }
  __syncwarp();
  for (size_t i = lane; i < top.k; i += kWarp) {
    expert[i] = static_cast<uint16_t>(chosen[i].index);
    const float probability = chosen[i].probability;
    alpha[i] = (top.normalized ? probability / total : probability) * top.scale;
  }
}

// Rounded after the product and after the sum, because the reference scales an output before it adds it.
__device__ float scaled_added(float sum, float scale, float value) { return __fadd_rn(sum, __fmul_rn(scale, value)); }
__device__ float4 scaled_added(float4 sum, float scale, float4 value) {
  return {scaled_added(sum.x, scale, value.x), scaled_added(sum.y, scale, value.y), scaled_added(sum.z, scale, value.z),
          scaled_added(sum.w, scale, value.w)};
}

constexpr unsigned kAddThreads = 128;

template <class Unit>
__global__ void add_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t k, size_t units,
                            float* hidden) {
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

void choose(const float* logits, size_t tokens, size_t experts, const TopChoices& top, uint16_t* expert, float* alpha,
            cudaStream_t stream) {
  if (tokens == 0) return;
  launch(experts <= kHeld * kWarp ? choose_tokens<true> : choose_tokens<false>,
         {blocks_of(tokens, kTokenWarps), kTokenWarps * kWarp, kTokenWarps * top.k * sizeof(Candidate)}, stream, logits,
         tokens, experts, top, expert, alpha);
}

void add_expert_outputs(const float* outputs, const uint32_t* positions, const float* alpha, size_t tokens, size_t k,
                        size_t d, float* hidden, cudaStream_t stream) {
  if (tokens == 0 || k == 0) return;
  const bool whole = d % 4 == 0;
  const size_t units = whole ? d / 4 : d;
  launch(whole ? add_outputs<float4> : add_outputs<float>,
         {{static_cast<unsigned>(tokens), blocks_of(units, kAddThreads)}, kAddThreads}, stream, outputs, positions,
         alpha, k, units, hidden);
}

}  // namespace sida::cuda
