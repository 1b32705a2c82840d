// The GEMM of many rows on few registers: weights are widened once for a block of rows, and tiles of half a panel's
// columns read them from the L1 cache. So do copies of the rows: rows themselves may all compete for the same lines.
// The sums of a tile rest in memory meanwhile. See float_kernels_impl.h.

#pragma once

#include <cstring>

#include "ops/cpu/kernels.h"
#include "ops/cpu/weight_steps_impl.h"

namespace sida {
namespace {

constexpr size_t kWidenedRows = 48, kWidenedInputs = 48;
constexpr size_t kCopyStride = kWidenedInputs + 8;

/// Weights of up to kWidenedInputs inputs and one step more, the same inputs of a block of rows, and the sums so far.
struct Block {
  alignas(64) float weights[(kWidenedInputs + 8) * kPanelColumns];
  alignas(64) float x[kWidenedRows * kCopyStride];
  alignas(64) float sums[kWidenedRows * kPanelColumns];
};

/// sums += x (kRows, inputs) · weights (inputs, 16 of 32 columns).
template <size_t kRows>
void add_block_tile(const float* first, const float* weights, size_t inputs, float* sums) {
  V acc[kRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) acc[r] = V::load(sums + r * kPanelColumns);
  for (size_t i = 0; i < inputs; ++i) {
    const V w = V::load(weights + i * kPanelColumns);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) acc[r] = V::fma(V::set(first[r * kCopyStride + i]), w, acc[r]);
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) V::store(sums + r * kPanelColumns, acc[r]);
}

/// block.sums += x (rows, inputs) · block.weights.
template <size_t kMost>
void add_block(const float* x, size_t stride, size_t rows, size_t inputs, Block& block) {
  for (size_t r = 0; r < rows; ++r) {
    const float* from = x + r * stride;
    float* to = block.x + r * kCopyStride;
    size_t i = 0;
    for (; i + 16 <= inputs; i += 16) V::storeu(to + i, V::loadu(from + i));
    for (; i < inputs; ++i) to[i] = from[i];
  }
  for (size_t column = 0; column < kPanelColumns; column += 16) {
    for (size_t row = 0; row < rows;) {
      row += with_rows<kMost>(rows - row, [&]<size_t kRows>() {
        add_block_tile<kRows>(block.x + row * kCopyStride, block.weights + column, inputs,
                              block.sums + row * kPanelColumns + column);
      });
    }
  }
}

template <class Step>
void gemm_block(const GemmTask& t, const float* x, size_t rows, const std::byte* panel, float* y, size_t columns) {
  Block block;
  std::memset(block.sums, 0, rows * kPanelColumns * sizeof(float));
  size_t inputs = 0;
  const auto add = [&] {
    add_block<kBlockTileRows>(x, t.x_stride, rows, inputs, block);
    x += inputs;
    inputs = 0;
  };
  const std::byte* end = each_step<Step>(t, panel, [&](const V(&w)[Step::kInputs][2], size_t count) {
    float* to = block.weights + inputs * kPanelColumns;
#pragma GCC unroll 8
    for (size_t i = 0; i < Step::kInputs; ++i) {
      V::store(to + i * kPanelColumns, w[i][0]);
      V::store(to + i * kPanelColumns + 16, w[i][1]);
    }
    inputs += count;
    if (inputs >= kWidenedInputs) add();
  });
  add();
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < 2; ++c) {
      const V sum = V::load(block.sums + r * kPanelColumns + 16 * c);
      store_columns(t.epilogue, t.bias, after_codes<Step>(end, c, sum), y + r * t.y_stride, c, columns);
    }
  }
}

}  // namespace
}  // namespace sida
