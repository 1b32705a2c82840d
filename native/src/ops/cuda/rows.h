#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/panels.h"

// What works on each row of the activations for itself. All pointers are the device's.
namespace sida::cuda {

/// y (rows, n) = x / sqrt(mean(x²) + epsilon) · weight
void rms_norm(const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y,
              cudaStream_t stream);

/// y (count, w.k): rows `ids` (count) of the packed (w.n, w.k) matrix, as f32. As read_panel_row().
void embed(const PanelMatrix& w, const int32_t* ids, size_t count, float* y, cudaStream_t stream);

/// y (count, n): rows `ids` (count) of x (.., n), times `scale`.
void take_rows(const float* x, const int32_t* ids, size_t count, size_t n, float scale, float* y,
               cudaStream_t stream);

}  // namespace sida::cuda
