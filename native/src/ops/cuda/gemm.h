#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/cuda/routing.h"
#include "ops/cuda/rows.h"
#include "spec/epilogue.h"
#include "weights/panels.h"

namespace sida::cuda {

/// Rows times one weight matrix: y (rows, w.n) = epilogue(x · W). All pointers are to device memory.
struct Product {
  const float* x;          ///< rows of w.k floats
  const uint32_t* gather;  ///< (rows): row i reads row gather[i] / gather_divisor of x; null: row i
  uint32_t gather_divisor;
  uint32_t rows;
  PanelMatrix w;
  float* y;               ///< (rows, w.n)
  PanelMatrix gate = {};  ///< (w.n, w.k): x·gate takes the place of y's old value in the epilogue; null data: none
};

/// What all products of a launch share. Strides in floats.
struct GemmShape {
  size_t x_stride;
  size_t y_stride;  ///< 0: each product's n
  Epilogue epilogue;
};

/// What is done to the rows of a product's y, in the same launch where they are few.
struct GemmEnd {
  unsigned* arrived;  ///< 0; it is 0 again behind the launch
  float* normed;      ///< (rows, w.n): the norm of y; null: the rows are logits of routers
  RowNorm norm;
  Router router = {};
  uint16_t* expert = nullptr;  ///< as choose() writes them
  float* alpha = nullptr;
};

/// Most products of one launch.
inline constexpr size_t kMaxProducts = 64;

/// Starts all `products` (at most kMaxProducts, of one k and format, all with a gate or none) on `stream`. Sums are
/// f32. Weights of f32 are multiplied with x in f32, those of other types on tensor cores with x split into two bf16
/// parts, x = high + low + O(2^-17 x). A row's bits depend only on its x and on W, not on the number of rows or on
/// other products.
void gemm(std::span<const Product> products, const GemmShape& shape, cudaStream_t stream);
/// One product, whose rows of y are n floats apart, and what is done to them.
void gemm(const Product& product, Epilogue epilogue, const GemmEnd& end, cudaStream_t stream);

/// Where the gates of a launch lie, counted from each product's weights and bias.
struct GateOffsets {
  ptrdiff_t weights;  ///< bytes
  ptrdiff_t bias;     ///< bytes
};

struct ProductRows;

/// Products that the device lists: a launch has room for `most`, and those without rows take no time.
struct ListedProducts {
  const ProductRows* list;  ///< (most), in device memory
  uint32_t most;
  uint32_t most_rows;  ///< of a product
  PanelMatrix form;    ///< k, n and format of all
  bool x_vectors;      ///< every row of x begins at a multiple of 16 bytes
  bool y_vectors;      ///< and of y
  std::optional<GateOffsets> gate = {};
};

/// The same for listed products, with the same bits.
void gemm(const ListedProducts& products, const GemmShape& shape, cudaStream_t stream);

}  // namespace sida::cuda
