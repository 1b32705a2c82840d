#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "weights/panels.h"

// Kernels that work on each row of the activations by itself. All pointers are to device memory.
namespace sida::cuda {

/// A norm over rows, with or without a bias: a layer norm or an RMS norm.
struct RowNorm {
  const float* weight;  ///< (n); null: 1, without a bias
  const float* bias;    ///< (n); null: an RMS norm
  float epsilon;
};

/// y (rows, n) = the norm of each row of x; y may be x.
void norm(const float* x, const RowNorm& norm, size_t rows, size_t n, float* y, cudaStream_t stream);

/// y (rows, n) = x / sqrt(mean(x²) + epsilon) · weight, null: 1; y may be x.
void rms_norm(const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y, cudaStream_t stream);

/// y (rows, n) = (x - mean(x)) / sqrt(variance(x) + epsilon) · weight + bias; y may be x.
void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, size_t rows, size_t n, float* y,
                cudaStream_t stream);

/// y (count, w.k): rows `ids` (count) of the packed (w.n, w.k) matrix times `scale`, as f32. As read_panel_row().
void embed(const PanelMatrix& w, const int32_t* ids, size_t count, float scale, float* y, cudaStream_t stream);

/// Each row of y (rows, n) += `row` (n).
void add_row(const float* row, size_t rows, size_t n, float* y, cudaStream_t stream);

/// The positions (rows) of tokens, whose hidden states have n columns.
struct RowPositions {
  const uint32_t* positions;  ///< 0: none
  size_t rows, n;
};

struct Frequencies {
  const float* values;
  size_t count;  ///< at most n / 2
};

/// Column j < count of each row of x (rows, n) += sin(position · frequency j), column count + j += its cosine. Rows
/// without a position stay.
void add_sinusoids(const RowPositions& positions, const Frequencies& frequencies, float* x, cudaStream_t stream);

/// y (count, n): rows `ids` (count) of x (.., n), times `scale`.
void take_rows(const float* x, const int32_t* ids, size_t count, size_t n, float scale, float* y, cudaStream_t stream);

/// x (count) clamped to ±limit; NaN where x is not finite.
void clip(float* x, size_t count, float limit, cudaStream_t stream);

/// x (count) = limit · tanh(x / limit); NaN where x is not finite.
void soft_cap(float* x, size_t count, float limit, cudaStream_t stream);

/// y += x (count).
void add(const float* x, size_t count, float* y, cudaStream_t stream);

/// x (count) times `factor` and, unless it is null, `more` (1).
void scale(float* x, size_t count, float factor, const float* more, cudaStream_t stream);

/// Factors of rows: the sigmoid of one gate, or the second of the softmax of two; NaN where a gate is not finite.
struct OutputGates {
  const float* gates;  ///< (rows, count)
  size_t rows;
  size_t count;  ///< 1 or 2
};

/// Each row of x (rows, n) times its factor.
void gate_rows(const OutputGates& gates, size_t n, float* x, cudaStream_t stream);

/// Each row of y (rows, n) += its factor times `row` (n).
void add_gated_row(const OutputGates& gates, const float* row, size_t n, float* y, cudaStream_t stream);

/// Rows of heads: (tokens, heads · head_dim).
struct HeadRows {
  size_t tokens, heads, head_dim;
};

/// Cosines and sines of each token's position, (tokens, half).
struct RotaryTable {
  const float* cosines;
  const float* sines;
  size_t half;            ///< at most head_dim / 2
  bool adjacent = false;  ///< pair j is columns 2j and 2j + 1
};

/// In every head of x column j < half and column half + j become (a·cos - b·sin, b·cos + a·sin), each product and sum
/// rounded; columns from 2 · half on stay.
void rotate(float* x, const HeadRows& rows, const RotaryTable& table, cudaStream_t stream);

}  // namespace sida::cuda
