#pragma once

#include "device/cuda/kernel_language.h"
#include "ops/cuda/rows.h"

namespace sida::cuda {

/// Turns pair `column` of a head by the position of `token`.
__device__ inline void rotate_pair(const RotaryTable& table, size_t token, size_t column, float* left, float* right) {
  const float cosine = table.cosines[token * table.half + column], sine = table.sines[token * table.half + column];
  const float a = *left, b = *right;
  *left = a * cosine - b * sine;
  *right = b * cosine + a * sine;
}

}  // namespace sida::cuda
