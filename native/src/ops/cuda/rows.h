#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/panels.h"

// Kernels that work on each row of the activations by itself. All pointers are to device memory.
namespace sida::cuda {

/// y (rows, n) = x / sqrt(mean(x²) + epsilon) · weight; y may be x.
void rms_norm(const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y,
              cudaStream_t stream);

/// y (count, w.k): rows `ids` (count) of the packed (w.n, w.k) matrix, as f32. As read_panel_row().
void embed(const PanelMatrix& w, const int32_t* ids, size_t count, float* y, cudaStream_t stream);

/// y (count, n): rows `ids` (count) of x (.., n), times `scale`.
void take_rows(const float* x, const int32_t* ids, size_t count, size_t n, float scale, float* y,
               cudaStream_t stream);

/// x (count) clamped to ±limit; NaN where x is not finite.
void clip(float* x, size_t count, float limit, cudaStream_t stream);

/// Each row of x (rows, n) times sigmoid(gates[row]); NaN where the gate is not finite.
void gate_rows(const float* gates, size_t rows, size_t n, float* x, cudaStream_t stream);

/// Rows of heads: (tokens, heads · head_dim).
struct HeadRows {
  size_t tokens, heads, head_dim;
};

/// Cosines and sines of each token's position, (tokens, half).
struct RotaryTable {
  const float* cosines;
  const float* sines;
  size_t half;  ///< at most head_dim / 2
  bool adjacent = false;  ///< pair j is columns 2j and 2j + 1
};

/// In every head of x column j < half and column half + j become (a·cos - b·sin, b·cos + a·sin), each product and sum
/// rounded; columns from 2 · half on stay.
void rotate(float* x, const HeadRows& rows, const RotaryTable& table, cudaStream_t stream);

}  // namespace sida::cuda
