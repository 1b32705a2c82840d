// The GEMM with f32 activations. See float_kernels_impl.h.
//
// What one output element is, in every instruction set and for any number of rows: one chain of fused
// multiply-adds over k, ascending, from 0. Its weights are the stored floats for f32 and bf16, and code · scale for the
// grouped types: exact in f32, but for those with a minimum, which is subtracted with one rounding. For int8 the chain
// runs over the codes and the scale multiplies its end.

#pragma once

#include "ops/cpu/gemm_block_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/weight_steps_impl.h"

namespace sida {
namespace {

/// acc += row r's x of one input times the panel's 32 weights of it.
template <size_t kRows>
[[gnu::always_inline]] inline void add_input(V (&acc)[kRows][2], const RowPointers<float, kRows>& x, size_t at,
                                             const V (&w)[2]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const V a = V::set(x.row(r)[at]);
    acc[r][0] = V::fma(a, w[0], acc[r][0]);
    acc[r][1] = V::fma(a, w[1], acc[r][1]);
  }
}

/// Few rows: their sums stay in the registers while the panel passes.
template <class Step, size_t kRows>
void gemm_tile(const GemmTask& t, const float* first, const std::byte* panel, float* y, size_t columns) {
  V acc[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = V::set(0.0f);
  RowPointers<float, kRows> x(first, t.x_stride);
  const std::byte* end = each_step<Step>(t, panel, [&](const V(&w)[Step::kInputs][2], size_t inputs) {
#pragma GCC unroll 8
    for (size_t i = 0; i < inputs; ++i) add_input(acc, x, i, w[i]);
    x.advance(inputs);
  });
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < 2; ++c) {
      store_columns(t.epilogue, t.bias, after_codes<Step>(end, c, acc[r][c]), y + r * t.y_stride, c, columns);
    }
  }
}

template <class Step>
void gemm_panels(const GemmTask& t) {
  if constexpr (kBlockTileRows > 0) {
    if (t.rows > kFloatTileRows) {
      return run_blocks<kWidenedRows>(
          t, [](const GemmTask& task, size_t row, size_t rows, const std::byte* panel, float* y, size_t columns) {
            gemm_block<Step>(task, task.x + row * task.x_stride, rows, panel, y, columns);
          });
    }
  }
  run_tiles<kFloatTileRows>(
      t, []<size_t kRows>(const GemmTask& task, size_t row, const std::byte* panel, float* y, size_t columns) {
        gemm_tile<Step, kRows>(task, task.x + row * task.x_stride, panel, y, columns);
      });
}

void gemm(const GemmTask& t) {
  switch (t.format.type) {
    case WeightType::kF32:
      return gemm_panels<F32Step>(t);
    case WeightType::kBf16:
      return gemm_panels<Bf16Step>(t);
    case WeightType::kBf16c:
      if (kBlockTileRows == 0 && t.rows > 2 * kFloatTileRows) return decoded_panels(t, gemm_panels<Bf16Step>);
      return gemm_panels<Bf16cStep>(t);
    case WeightType::kInt8:
      return gemm_panels<Int8Step>(t);
    case WeightType::kInt4:
      return gemm_panels<Int4Step>(t);
    case WeightType::kMxfp4:
      return gemm_panels<Mxfp4Step>(t);
    case WeightType::kQ8_0:
      return gemm_panels<Q8_0Step>(t);
    case WeightType::kQ4_0:
      return gemm_panels<Q4_0Step>(t);
    case WeightType::kQ4_K:
      return gemm_panels<Q4_KStep>(t);
    case WeightType::kQ6_K:
      return gemm_panels<Q6_KStep>(t);
    default:
      return gemm_panels<PlaneStep>(t);
  }
}

}  // namespace
}  // namespace sida
