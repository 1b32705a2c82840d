#pragma once

#include <climits>

#include "ops/cuda/portable_epilogue.cuh"
#include "ops/cuda/routing.h"
#include "ops/cuda/warp.h"

// How a warp chooses the experts of a token.
namespace sida::cuda {

/// Logits that a lane keeps in registers, for 256 experts a warp. With more experts they are read again.
inline constexpr unsigned kHeld = 8;

/// An expert and what it is chosen by.
struct Candidate {
  float score = -INFINITY;
  int index = INT_MAX;

  __device__ bool before(const Candidate& other) const {
    return score > other.score || (score == other.score && index < other.index);
  }
};

/// Scratch memory of choose_row(): the choices, and the groups.
__host__ __device__ constexpr size_t scratch_candidates(const RouterSpec& spec) {
  return spec.top_k + (spec.groups.count > 1 ? spec.groups.count : 0);
}

/// The first of a warp's candidates, in every lane.
__device__ inline Candidate warp_first(Candidate best) {
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, best.score, step), __shfl_xor_sync(kAllLanes, best.index, step)};
    if (other.before(best)) best = other;
  }
  return best;
}

/// As choose() for one row of logits, by one warp. `chosen`: scratch_candidates() in shared memory; results are written
/// once, as the host's memory is far.
template <bool kHolds>
__device__ void choose_row(const float* row, size_t experts, const Router& router, Candidate* chosen, uint16_t* expert,
                           float* alpha) {
  const RouterSpec& spec = router.spec;
  const unsigned lane = threadIdx.x % kWarp;
  const auto groups = static_cast<unsigned>(spec.groups.count), size = static_cast<unsigned>(experts) / groups;
  Candidate* const group = chosen + spec.top_k;
  float held[kHeld];
  // Calls look(value, index) for each of this lane's logits, in order. Logits in registers have become what experts are
  // chosen by from the second use on.
  const auto each = [&](auto look) {
    if constexpr (kHolds) {
#pragma unroll
      for (unsigned i = 0; i < kHeld; ++i) {
        if (lane + i * kWarp < experts) look(held[i], static_cast<int>(lane + i * kWarp));
      }
    } else {
      for (size_t i = lane; i < experts; i += kWarp) look(row[i], static_cast<int>(i));
    }
  };
  if constexpr (kHolds) {
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      held[i] = lane + i * kWarp < experts ? row[lane + i * kWarp] : 0.0f;
    }
  }
  float most = -INFINITY, sum = 0;
  if (spec.scores == RouterScores::kSoftmax) {
    each([&](float logit, int) { most = fmaxf(most, logit); });
    most = warp_max(most);
    each([&](float logit, int) { sum += expf(logit - most); });
    sum = warp_sum(sum);
  }
  const auto score = [&](float logit) {
    if (spec.scores == RouterScores::kSoftmax) return expf(logit - most) / sum;
    return spec.scores == RouterScores::kSigmoid ? portable_sigmoid(logit) : logit;
  };
  bool dropped = false;
  const auto choice_score = [&](float logit, unsigned index) {
    if (dropped && group[index / size].index == 0) return -INFINITY;
    return router.correction == nullptr ? score(logit) : __fadd_rn(score(logit), router.correction[index]);
  };
  float invalid = 0;
  if constexpr (kHolds) {
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      if (lane + i * kWarp < experts) held[i] = choice_score(held[i], lane + i * kWarp);
    }
  }
  const auto each_choice = [&](auto look) {
    each([&](float value, int index) { look(kHolds ? value : choice_score(value, index), index); });
  };
  each_choice([&](float value, int) { invalid = value != value ? 1.0f : invalid; });
  if (warp_max(invalid) > 0) {
    for (size_t i = lane; i < spec.top_k; i += kWarp) {
      expert[i] = static_cast<uint16_t>(i);
      alpha[i] = NAN;
    }
    return;
  }
  // The next candidate of `count` from `begin` on. Different logits may have equal scores; the first of these is
  // chosen. Each choice is the next one in the order of all, so that no list of earlier choices is needed.
  const auto next = [&](const Candidate& last, unsigned begin, unsigned count) {
    Candidate best;
    each_choice([&](float value, int index) {
      const Candidate own{value, index};
      if (static_cast<unsigned>(index) - begin < count && last.before(own) && own.before(best)) best = own;
    });
    return warp_first(best);
  };
  if (groups > 1) {
    for (unsigned g = 0; g < groups; ++g) {
      // As on the CPU, +inf adds nothing.
      Candidate last{INFINITY, INT_MAX};
      float total = 0;
      for (size_t i = 0; i < spec.groups.best; ++i) {
        last = next(last, g * size, size);
        if (last.index == INT_MAX) break;
        total += last.score;
      }
      if (lane == 0) group[g].score = total;
    }
    __syncwarp();
    for (unsigned g = lane; g < groups; g += kWarp) {
      unsigned place = 0;
      for (unsigned h = 0; h < groups; ++h) {
        place += group[h].score > group[g].score || (group[h].score == group[g].score && h < g);
      }
      group[g].index = place < spec.groups.kept ? 1 : 0;
    }
    __syncwarp();
    dropped = true;
    if constexpr (kHolds) {
#pragma unroll
      for (unsigned i = 0; i < kHeld; ++i) {
        const unsigned index = lane + i * kWarp;
        if (index < experts && group[index / size].index == 0) held[i] = -INFINITY;
      }
    }
  }
  Candidate last{INFINITY, -1};
  for (size_t i = 0; i < spec.top_k; ++i) {
    last = next(last, 0, groups * size);
    if (lane == 0) chosen[i] = last;
  }
  __syncwarp();
  const auto each_chosen = [&](auto change) {
    for (size_t i = lane; i < spec.top_k; i += kWarp) change(chosen[i]);
    __syncwarp();
  };
  const auto divide_by_sum = [&](float floor) {
    float total = 0;
    for (size_t i = 0; i < spec.top_k; ++i) total += chosen[i].score;
    total += floor;
    __syncwarp();
    each_chosen([&](Candidate& own) { own.score /= total; });
  };
  if (router.correction != nullptr || groups > 1) {
    each_chosen([&](Candidate& own) { own.score = score(row[own.index]); });
  }
  if (spec.scores == RouterScores::kSoftmaxOfChosen) {
    for (size_t i = 0; i < spec.top_k; ++i) most = fmaxf(most, chosen[i].score);
    __syncwarp();
    each_chosen([&](Candidate& own) { own.score = portable_exp(__fadd_rn(own.score, -most)); });
    divide_by_sum(0);
  }
  if (spec.normalized) divide_by_sum(spec.sum_floor);
  for (size_t i = lane; i < spec.top_k; i += kWarp) {
    const Candidate own = chosen[i];
    const float scaled = own.score * static_cast<float>(spec.scale);
    expert[i] = static_cast<uint16_t>(own.index);
    alpha[i] = router.factors == nullptr ? scaled : scaled * router.factors[own.index];
  }
}

__device__ inline void choose_row_of(const float* row, size_t experts, const Router& router, Candidate* chosen,
                                     uint16_t* expert, float* alpha) {
  if (experts <= kHeld * kWarp) return choose_row<true>(row, experts, router, chosen, expert, alpha);
  choose_row<false>(row, experts, router, chosen, expert, alpha);
}

}  // namespace sida::cuda
