#pragma once

#include "ops/cuda/rows.h"
#include "ops/cuda/warp.h"

// Norms of a row by one warp. Every kernel that norms uses these functions, so that a row has the same bits in each.
namespace sida::cuda {

__device__ inline float square_added(float sum, float4 v) {
  return fmaf(v.w, v.w, fmaf(v.z, v.z, fmaf(v.y, v.y, fmaf(v.x, v.x, sum))));
}
__device__ inline float square_added(float sum, float v) { return fmaf(v, v, sum); }

__device__ inline float4 scaled(float4 v, float scale) { return {v.x * scale, v.y * scale, v.z * scale, v.w * scale}; }
__device__ inline float scaled(float v, float scale) { return v * scale; }

__device__ inline float4 shifted(float4 v, float by) { return {v.x + by, v.y + by, v.z + by, v.w + by}; }
__device__ inline float shifted(float v, float by) { return v + by; }

__device__ inline float sum_of(float4 v) { return v.x + v.y + v.z + v.w; }
__device__ inline float sum_of(float v) { return v; }

__device__ inline float4 sum(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ inline float sum(float a, float b) { return a + b; }

__device__ inline float4 product(float4 a, float4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ inline float product(float a, float b) { return a * b; }

/// 1 / sqrt(mean(x²) + epsilon) of a row of `units` units, in every lane. A unit is float4 where the row's width is a
/// multiple of 4, else float.
template <class Unit>
__device__ float rms_scale(const Unit* row, size_t units, float epsilon) {
  float squares = 0;
#pragma unroll 4
  for (size_t i = threadIdx.x % kWarp; i < units; i += kWarp) squares = square_added(squares, row[i]);
  const auto n = static_cast<float>(units * (sizeof(Unit) / sizeof(float)));
  return 1.0f / sqrtf(warp_sum(squares) / n + epsilon);
}

__device__ inline float rms_scale_of(const float* row, size_t n, float epsilon) {
  return n % 4 == 0 ? rms_scale(reinterpret_cast<const float4*>(row), n / 4, epsilon) : rms_scale(row, n, epsilon);
}

/// to = the row's RMS norm.
template <class Unit>
__device__ void rms_norm_row(const Unit* from, const RowNorm& norm, size_t units, Unit* to) {
  const auto* weights = reinterpret_cast<const Unit*>(norm.weight);
  const float scale = rms_scale(from, units, norm.epsilon);
#pragma unroll 4
  for (size_t i = threadIdx.x % kWarp; i < units; i += kWarp) {
    const Unit normed = scaled(from[i], scale);
    to[i] = weights == nullptr ? normed : product(normed, weights[i]);
  }
}

/// to = the row's layer norm.
template <class Unit>
__device__ void layer_norm_row(const Unit* from, const RowNorm& norm, size_t units, Unit* to) {
  const unsigned lane = threadIdx.x % kWarp;
  const auto* weights = reinterpret_cast<const Unit*>(norm.weight);
  const auto* biases = reinterpret_cast<const Unit*>(norm.bias);
  const auto n = static_cast<float>(units * (sizeof(Unit) / sizeof(float)));
  float total = 0;
#pragma unroll 4
  for (size_t i = lane; i < units; i += kWarp) total += sum_of(from[i]);
  const float mean = warp_sum(total) / n;
  float squares = 0;
#pragma unroll 4
  for (size_t i = lane; i < units; i += kWarp) squares = square_added(squares, shifted(from[i], -mean));
  const float scale = 1.0f / sqrtf(warp_sum(squares) / n + norm.epsilon);
#pragma unroll 4
  for (size_t i = lane; i < units; i += kWarp) {
    to[i] = sum(product(scaled(shifted(from[i], -mean), scale), weights[i]), biases[i]);
  }
}

template <class Unit>
__device__ void norm_row(const Unit* from, const RowNorm& norm, size_t units, Unit* to) {
  norm.bias == nullptr ? rms_norm_row(from, norm, units, to) : layer_norm_row(from, norm, units, to);
}

/// to (n) = the norm of the row.
__device__ inline void norm_row_of(const float* from, const RowNorm& norm, size_t n, float* to) {
  if (n % 4 == 0) return norm_row(reinterpret_cast<const float4*>(from), norm, n / 4, reinterpret_cast<float4*>(to));
  norm_row(from, norm, n, to);
}

}  // namespace sida::cuda
