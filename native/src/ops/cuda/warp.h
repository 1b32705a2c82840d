#pragma once

#include "device/cuda/kernel_language.h"

// Sums and maxima over a warp, and the sizes of launches.
namespace sida::cuda {

/// The sum of `value` over groups of `kLanes` neighbours: always the same tree, in every lane of the group.
template <unsigned kLanes = kWarp>
__device__ inline float warp_sum(float value) {
  for (unsigned step = 1; step < kLanes; step *= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

/// The same for the largest number; a NaN does not count.
template <unsigned kLanes = kWarp>
__device__ inline float warp_max(float value) {
  for (unsigned step = 1; step < kLanes; step *= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

/// Blocks of `size` that hold `count`.
constexpr unsigned blocks_of(size_t count, size_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace sida::cuda
