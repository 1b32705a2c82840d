#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/epilogue.h"
#include "ops/panels.h"

namespace sida::cuda {

/// Rows times one weight matrix: y (rows, w.n) = epilogue(x · W). All pointers are the device's.
struct Product {
  const float* x;          ///< rows of w.k floats
  const uint32_t* gather;  ///< (rows): row i reads row gather[i] / gather_divisor of x; null: row i
  uint32_t gather_divisor;
  uint32_t rows;
  PanelMatrix w;
  float* y;  ///< (rows, w.n), row i's answer in row i
};

/// What all products of a launch share. Strides in floats.
struct GemmShape {
  size_t x_stride;
  size_t y_stride;
  Epilogue epilogue;
};

/// Most products of one launch.
inline constexpr size_t kMaxProducts = 64;

/// All `products` (at most kMaxProducts; of one k, n and format) on `stream`. Sums are f32. Weights of bf16,
/// int8 and int4 meet x in two parts of bf16 each, x = high + low + O(2^-17 x), on tensor cores; f32 weights
/// meet f32 x. A row's bits depend on its x and on W alone: not on the number of rows, nor on the other
/// products.
void gemm(std::span<const Product> products, const GemmShape& shape, cudaStream_t stream);

}  // namespace sida::cuda
