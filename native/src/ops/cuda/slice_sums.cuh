#pragma once

#include "ops/cuda/activation_fragments.cuh"
#include "ops/cuda/gemm_arguments.cuh"
#include "ops/cuda/weight_fragments.cuh"

// A slice's sum on tensor cores. All kernels use these functions, so that the sum has the same bits in each: all step
// pairs in ascending order, with zeros for inputs past k. int4 sums each group by itself and adds it times its scale.
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

/// sums += group · scale, and clears the group's.
__device__ inline void add_group(TileSums& sums, TileSums& group, const float (&scale)[8]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums.of[tile][i] = fmaf(group.of[tile][i], scale[4 * (i % 2) + tile], sums.of[tile][i]);
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
  return first + i * static_cast<uint32_t>(inputs_per_step(Weights::kType)) < k;
}

/// Whether an int4 group that has any inputs ends with step pair `pair` of the slice.
template <class Weights>
__device__ inline bool ends_group(uint32_t slice_begin, uint32_t pair, uint32_t k) {
  const uint32_t end = (pair + 1) * kStepPairInputs;
  return end % Weights::kGroup == 0 && slice_begin + end - Weights::kGroup < k;
}

}  // namespace sida::cuda
