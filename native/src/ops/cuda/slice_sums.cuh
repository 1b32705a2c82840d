#pragma once

#include "ops/cuda/activation_fragments.cuh"
#include "ops/cuda/gemm_arguments.cuh"
#include "ops/cuda/weight_fragments.cuh"

// A slice's sum on tensor cores. All kernels use these functions, so that the sum has the same bits in each: all step
// pairs in ascending order, with zeros for inputs past k. Types in groups sum each by itself and add it times its
// scale; those with minimums also add the sum of the group's inputs times the minimum.
namespace sida::cuda {

/// Step pairs of a slice.
inline constexpr uint32_t kStepPairs = kSliceInputs / kStepPairInputs;

/// A lane's sums of 8 rows by the 32 columns of a panel, in the layout of the mma: for each tile two sums of high
/// parts, then two of low parts.
struct TileSums {
  float of[kTiles][4];
};

__device__ inline void clear(TileSums& sums) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.of[tile][i] = 0.0f;
  }
}

/// A lane's sums of the inputs of 8 rows, in the layout of a tile.
struct InputSums {
  float of[4] = {};
};

/// sums += the inputs of one step.
__device__ inline void add_inputs(InputSums& sums, const uint32_t (&a)[4]) {
  constexpr uint32_t kOnes[2] = {0x3f803f80U, 0x3f803f80U};
  mma_bf16(sums.of, a, kOnes);
}

/// sums += group · scale, with a minimum also the inputs' sum · less; clears the group's.
template <bool kMinimum>
__device__ inline void add_group(TileSums& sums, TileSums& group, const InputSums& inputs,
                                 const GroupFactors& factors) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& sum = sums.of[tile][i];
      sum = fmaf(group.of[tile][i], factors.scale[4 * (i % 2) + tile], sum);
      if constexpr (kMinimum) sum = fmaf(inputs.of[i], factors.less[4 * (i % 2) + tile], sum);
    }
  }
  clear(group);
}

/// A lane's sums of columns 8q to 8q + 7.
__device__ inline void slice_sums(const TileSums& sums, float (&columns)[8]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    columns[tile] = sum_of_parts(sums.of[tile][0], sums.of[tile][2]);
    columns[4 + tile] = sum_of_parts(sums.of[tile][1], sums.of[tile][3]);
  }
}

/// Whether the panel holds the bytes of load `i` of inputs [first, first + 8).
template <class Weights>
__device__ inline bool in_panel(uint32_t first, uint32_t i, uint32_t k) {
  return first + i * Weights::kLoadInputs < k;
}

/// Whether inputs that share a scale, and of which the panel has any, end with `step` of step pair `pair` of the slice.
template <class Weights>
__device__ inline bool ends_part(uint32_t slice_begin, uint32_t pair, int step, uint32_t k) {
  const uint32_t end = pair * kStepPairInputs + static_cast<uint32_t>(step + 1) * (kStepPairInputs / 2);
  return end % Weights::kScaled == 0 && slice_begin + end - Weights::kScaled < k;
}

/// The part of its group that ends there.
template <class Weights>
__device__ inline unsigned part_of(uint32_t pair, int step) {
  const uint32_t last = pair * kStepPairInputs + static_cast<uint32_t>(step) * (kStepPairInputs / 2);
  return last % Weights::kGroup / Weights::kScaled;
}

/// Whether the inputs of each step have scales of their own.
template <class Weights>
constexpr bool step_has_scales() {
  if constexpr (grouped(Weights::kType)) {
    return Weights::kScaled < kStepPairInputs;
  } else {
    return false;
  }
}

template <class Weights>
constexpr bool has_minimum() {
  if constexpr (grouped(Weights::kType)) {
    return Weights::kMinimum;
  } else {
    return false;
  }
}

}  // namespace sida::cuda
