#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/cuda/gemm.h"
#include "spec/epilogue.h"
#include "weights/panels.h"

// Products of activations in 8 bits. Outputs have the bits of the CPU's (ops/cpu/int8_gemm_impl.h): sums of codes are
// exact integers, and what scales them are the same IEEE operations in the same order.
namespace sida::cuda {

/// Rows in 8 bits: x / scale, from -127 to 127. A scale is NaN where the row holds a number that is not finite.
struct RoundedRows {
  int8_t* codes;  ///< (rows, stride), 0 past k
  size_t stride;
  float* scales;  ///< (rows)
};

/// Bytes of `rows` rows of k inputs.
size_t rounded_bytes(size_t rows, size_t k);

/// Lays rows of k inputs out in `memory`, device memory of rounded_bytes().
RoundedRows lay_out_rounded(std::byte* memory, size_t rows, size_t k);

/// Rows [first, first + count).
struct RowRange {
  uint32_t first, count;
};

/// Rounds the rows of x, x_stride floats apart, in `ranges` (at most kMaxProducts).
void round_rows(const float* x, size_t x_stride, size_t k, std::span<const RowRange> ranges, const RoundedRows& out,
                cudaStream_t stream);

/// Rounded rows times one matrix of a quantized type: y (rows, w.n) = epilogue(x · W).
struct RoundedProduct {
  uint32_t first;          ///< of the rounded rows
  const uint32_t* gather;  ///< (rows): row i reads rounded row gather[i] / gather_divisor; null: first + i
  uint32_t gather_divisor;
  uint32_t rows;
  PanelMatrix w;
  float* y;
};

/// Starts all `products` (at most kMaxProducts, of one k, n and format). A row's bits depend only on its x and on W.
void gemm_rounded(const RoundedRows& x, std::span<const RoundedProduct> products, size_t y_stride, Epilogue epilogue,
                  cudaStream_t stream);
/// The same for listed products, with the same bits. Their x are rows of `floats`, whose codes are in `x`.
void gemm_rounded(const RoundedRows& x, const float* floats, const ListedProducts& products, Epilogue epilogue,
                  cudaStream_t stream);

}  // namespace sida::cuda
