#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// The kernels of a predictor's forward pass. Weights are bf16, two neighbours of a row in a word: (⌈k / 2⌉, n) words of
// a matrix (n, k), zero behind an odd k. All else is f32, row-major.
namespace sida::cuda {

/// y (rows, n) = x (rows, k) · Wᵀ + bias, and its relu + `added` (rows, n) where that is not null.
struct MultiplyRows {
  const float* x;
  const uint32_t* weights;
  const float* bias;
  const float* added;
  float* y;
  size_t rows, k, n;
};
void multiply_rows(const MultiplyRows& task, cudaStream_t stream);

/// A layer of LSTMs of `units` units in one or two directions, the second from a sequence's end.
struct RunLstms {
  const float* inputs[2];      ///< by direction: (rows, 4 · units) x · W_inputᵀ + bias: gates i, f, g, o
  const uint32_t* weights[2];  ///< by direction: W_hidden (4 · units, units)
  const uint32_t* begins;      ///< (sequences + 1) rows
  float* y;                    ///< (rows, directions · units)
  size_t sequences, directions, units;
};
void run_lstms(const RunLstms& task, cudaStream_t stream);

/// out (rows, width) = y + weights · y, the weights the sparsemax or softmax of y · yᵀ / √width within each sequence.
struct AttendRows {
  const float* y;
  const uint32_t* begins;  ///< (sequences + 1) rows
  float* out;
  size_t rows, width;
  size_t longest;  ///< rows of a sequence, at most
  bool causal, softmax;
};
void attend_rows(const AttendRows& task, cudaStream_t stream);

}  // namespace sida::cuda
