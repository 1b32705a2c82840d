#pragma once

#include <climits>

#include "ops/cuda/routing.h"
#include "ops/cuda/warp.h"

// How a warp chooses the experts of a token.
namespace sida::cuda {

/// Logits that a lane keeps in registers, for 256 experts a warp. With more experts they are read again.
inline constexpr unsigned kHeld = 8;

/// A probability and the index of its expert.
struct Candidate {
  float probability = -1;
  unsigned index = UINT_MAX;

  __device__ bool before(const Candidate& other) const {
    return probability > other.probability || (probability == other.probability && index < other.index);
  }
};

/// The first of a warp's candidates, in every lane.
__device__ inline Candidate warp_first(Candidate best) {
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, best.probability, step),
                          __shfl_xor_sync(kAllLanes, best.index, step)};
    if (other.before(best)) best = other;
  }
  return best;
}

/// As choose() for one row of logits, by one warp. As in the CPU's softmax, every probability is NaN where a logit is
/// NaN or +inf, or all are -inf. `chosen`: (top.k) in shared memory; results are written once, as the host's memory is
/// far.
template <bool kHolds>
__device__ void choose_row(const float* row, size_t experts, const TopChoices& top, Candidate* chosen, uint16_t* expert,
                           float* alpha) {
  const unsigned lane = threadIdx.x % kWarp;
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

__device__ inline void choose_row_of(const float* row, size_t experts, const TopChoices& top, Candidate* chosen,
                                     uint16_t* expert, float* alpha) {
  if (experts <= kHeld * kWarp) return choose_row<true>(row, experts, top, chosen, expert, alpha);
  choose_row<false>(row, experts, top, chosen, expert, alpha);
}

}  // namespace sida::cuda
