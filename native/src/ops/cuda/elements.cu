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

__global__ void gate_elements(const float* gates, size_t n, float* x) {
  const size_t row = blockIdx.x, column = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (column >= n) return;
  const float gate = gates[row];
  x[row * n + column] *= fmaf(gate, 0.0f, 1.0f / (1.0f + expf(-gate)));
}

/// One thread for each pair of columns.
__global__ void rotate_pairs(float* x, HeadRows rows, RotaryTable table) {
  const size_t pair = blockIdx.y * size_t{kThreads} + threadIdx.x, token = blockIdx.x;
  if (pair >= rows.heads * table.half) return;
  const size_t head = pair / table.half, column = pair % table.half;
  float* left = x + (token * rows.heads + head) * rows.head_dim + (table.adjacent ? 2 * column : column);
  float* right = left + (table.adjacent ? 1 : table.half);
  const float cosine = table.cosines[token * table.half + column], sine = table.sines[token * table.half + column];
  const float a = *left, b = *right;
  *left = a * cosine - b * sine;
  *right = b * cosine + a * sine;
}

}  // namespace

void clip(float* x, size_t count, float limit, cudaStream_t stream) {
  if (count == 0) return;
  launch(clip_elements, {blocks_of(count, kThreads), kThreads}, stream, x, count, limit);
}

void gate_rows(const float* gates, size_t rows, size_t n, float* x, cudaStream_t stream) {
  if (rows == 0 || n == 0) return;
  launch(gate_elements, {{static_cast<unsigned>(rows), blocks_of(n, kThreads)}, kThreads}, stream, gates, n, x);
}

void rotate(float* x, const HeadRows& rows, const RotaryTable& table, cudaStream_t stream) {
  const size_t pairs = rows.heads * table.half;
  if (rows.tokens == 0 || pairs == 0) return;
  launch(rotate_pairs, {{static_cast<unsigned>(rows.tokens), blocks_of(pairs, kThreads)}, kThreads}, stream, x, rows,
         table);
}

}  // namespace sida::cuda
