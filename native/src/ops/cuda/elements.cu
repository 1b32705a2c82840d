#include "ops/cuda/rotate_pair.cuh"
#include "ops/cuda/rows.h"
#include "ops/cuda/warp.h"

// Kernels on single elements of the activations, or on pairs of them, in place.
namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 128;

__global__ void clip_elements(float* x, size_t count, float limit) {
  const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  // Written without fminf, so that a NaN stays NaN. The fma makes NaN of an infinity, which must not become a valid
  // number.
  const float value = x[i];
  x[i] = fmaf(value, 0.0f, value > limit ? limit : value < -limit ? -limit : value);
}

__global__ void cap_elements(float* x, size_t count, float limit) {
  const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (i < count) x[i] = fmaf(x[i], 0.0f, limit * tanhf(x[i] / limit));
}

__global__ void add_elements(const float* x, size_t count, float* y) {
  const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (i < count) y[i] += x[i];
}

__global__ void scale_elements(float* x, size_t count, float factor, const float* more) {
  const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (i < count) x[i] *= more == nullptr ? factor : factor * *more;
}

/// The softmax of two numbers is the sigmoid of their difference.
__device__ float output_factor(const OutputGates& of, size_t row) {
  const float* gates = of.gates + row * of.count;
  const float gate = of.count == 1 ? gates[0] : gates[1] - gates[0];
  return fmaf(gate, 0.0f, 1.0f / (1.0f + expf(-gate)));
}

__global__ void gate_elements(OutputGates gates, size_t n, float* x) {
  const size_t row = blockIdx.x, column = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (column < n) x[row * n + column] *= output_factor(gates, row);
}

__global__ void add_gated_elements(OutputGates gates, const float* values, size_t n, float* y) {
  const size_t row = blockIdx.x, column = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (column < n) y[row * n + column] += output_factor(gates, row) * values[column];
}

__global__ void add_row_elements(const float* values, size_t n, float* y) {
  const size_t row = blockIdx.x, column = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (column < n) y[row * n + column] += values[column];
}

__global__ void add_sines(RowPositions at, Frequencies frequencies, float* x) {
  const size_t row = blockIdx.x, column = blockIdx.y * size_t{kThreads} + threadIdx.x;
  const uint32_t position = at.positions[row];
  if (column >= frequencies.count || position == 0) return;
  const float angle = static_cast<float>(position) * frequencies.values[column];
  float* to = x + row * at.n + column;
  to[0] += sinf(angle);
  to[frequencies.count] += cosf(angle);
}

/// One thread for each pair of columns.
__global__ void rotate_pairs(float* x, HeadRows rows, RotaryTable table) {
  const size_t pair = blockIdx.y * size_t{kThreads} + threadIdx.x, token = blockIdx.x;
  if (pair >= rows.heads * table.half) return;
  const size_t head = pair / table.half, column = pair % table.half;
  float* left = x + (token * rows.heads + head) * rows.head_dim + (table.adjacent ? 2 * column : column);
  rotate_pair(table, token, column, left, left + (table.adjacent ? 1 : table.half));
}

}  // namespace

void clip(float* x, size_t count, float limit, cudaStream_t stream) {
  if (count == 0) return;
  launch(clip_elements, {blocks_of(count, kThreads), kThreads}, stream, x, count, limit);
}

void soft_cap(float* x, size_t count, float limit, cudaStream_t stream) {
  if (count == 0) return;
  launch(cap_elements, {blocks_of(count, kThreads), kThreads}, stream, x, count, limit);
}

void add(const float* x, size_t count, float* y, cudaStream_t stream) {
  if (count == 0) return;
  launch(add_elements, {blocks_of(count, kThreads), kThreads}, stream, x, count, y);
}

void scale(float* x, size_t count, float factor, const float* more, cudaStream_t stream) {
  if (count == 0) return;
  launch(scale_elements, {blocks_of(count, kThreads), kThreads}, stream, x, count, factor, more);
}

void gate_rows(const OutputGates& gates, size_t n, float* x, cudaStream_t stream) {
  if (gates.rows == 0 || n == 0) return;
  launch(gate_elements, {{static_cast<unsigned>(gates.rows), blocks_of(n, kThreads)}, kThreads}, stream, gates, n, x);
}

void add_gated_row(const OutputGates& gates, const float* row, size_t n, float* y, cudaStream_t stream) {
  if (gates.rows == 0 || n == 0) return;
  launch(add_gated_elements, {{static_cast<unsigned>(gates.rows), blocks_of(n, kThreads)}, kThreads}, stream, gates,
         row, n, y);
}

void add_row(const float* row, size_t rows, size_t n, float* y, cudaStream_t stream) {
  if (rows == 0 || n == 0) return;
  launch(add_row_elements, {{static_cast<unsigned>(rows), blocks_of(n, kThreads)}, kThreads}, stream, row, n, y);
}

void add_sinusoids(const RowPositions& positions, const Frequencies& frequencies, float* x, cudaStream_t stream) {
  if (positions.rows == 0 || frequencies.count == 0) return;
  launch(add_sines, {{static_cast<unsigned>(positions.rows), blocks_of(frequencies.count, kThreads)}, kThreads}, stream,
         positions, frequencies, x);
}

void rotate(float* x, const HeadRows& rows, const RotaryTable& table, cudaStream_t stream) {
  const size_t pairs = rows.heads * table.half;
  if (rows.tokens == 0 || pairs == 0) return;
  launch(rotate_pairs, {{static_cast<unsigned>(rows.tokens), blocks_of(pairs, kThreads)}, kThreads}, stream, x, rows,
         table);
}

}  // namespace sida::cuda
