// The GEMM with 8-bit activations. See float_kernels_impl.h.
//
// What one output element is, in every instruction set and for any number of rows. int8: the exact sum of
// activation code · weight code, rounded to f32, times the channel's scale, times the row's. Types whose groups have
// one scale: a chain of fused multiply-adds over the groups, ascending, of the group's exact sum and its scale; then
// times the row's. Types with minimums: for each group also the exact sum of its activation codes and the minimum.
// Types whose groups have parts: for each part.

#pragma once

#include "ops/cpu/int8_group_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rounded_rows_impl.h"
#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

/// Behind the codes of an int8 panel: what turns its exact sums into outputs.
struct Int8Scales {
  V scale[2];
  /// What the zero of the activations' codes has added.
  I excess[2];

  explicit Int8Scales(const std::byte* behind_codes)
      : scale{V::load(reinterpret_cast<const float*>(behind_codes)),
              V::load(reinterpret_cast<const float*>(behind_codes) + 16)},
        excess{excess_of(behind_codes + 128), excess_of(behind_codes + 192)} {}

  static I excess_of(const std::byte* sums) { return I::kZero == 0 ? I::set(0) : I::times_128(I::load(sums)); }

  V output(I sum, size_t half, V row_scale) const {
    return V::mul(V::mul(I::to_float(I::sub(sum, excess[half])), scale[half]), row_scale);
  }
};

/// acc + the products of activations, as round_rows() leaves them before int8 weights, with such weights.
I dot_int8(I acc, I activations, I weights) {
  if constexpr (I::kZero == 0) return I::dot_signed(acc, activations, weights);
  return I::dot(acc, activations, weights);
}

// The tiles hold their sums in arrays that must become registers, so the loops are unrolled by hand.

struct Int8Tile {
  template <size_t kRows>
  static void run(const GemmTask& t, const RoundedRows& x, size_t row, const std::byte* panel, float* y,
                  size_t columns) {
    RowPointers<uint8_t, kRows> codes(x.codes + row * x.stride, x.stride);
    I acc[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = I::set(0);
    const std::byte* end = panel + code_bytes(t.k, WeightType::kInt8);
    for (const std::byte* p = panel; p != end; p += kPanelStepBytes) {
      prefetch_step(p);
      const I w0 = I::load(p), w1 = I::load(p + 64);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const I a = broadcast4(codes.row(r));
        acc[r][0] = dot_int8(acc[r][0], a, w0);
        acc[r][1] = dot_int8(acc[r][1], a, w1);
      }
      codes.advance(4);
    }
    const Int8Scales scales(end);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const V row_scale = V::set(x.scales[row + r]);
#pragma GCC unroll 2
      for (size_t c = 0; c < 2; ++c) {
        store_columns(t.epilogue, t.bias, scales.output(acc[r][c], c, row_scale), y + r * t.y_stride, c, columns);
      }
    }
  }
};

template <class Tile, size_t kMax>
void int8_panels(const GemmTask& t, const RoundedRows& x) {
  run_tiles<kMax>(t, [&]<size_t kRows>(const GemmTask& task, size_t row, const std::byte* panel, float* y,
                                       size_t columns) { Tile::template run<kRows>(task, x, row, panel, y, columns); });
}

void gemm_int8(const GemmTask& t, const RoundedRows& x) {
  switch (t.format.type) {
    case WeightType::kInt8:
      return int8_panels<Int8Tile, kInt8TileRows>(t, x);
    case WeightType::kMxfp4:
      return int8_panels<GroupTile<WeightType::kMxfp4>, kGroupedTileRows>(t, x);
    case WeightType::kQ8_0:
      return int8_panels<GroupTile<WeightType::kQ8_0>, kGroupedTileRows>(t, x);
    case WeightType::kQ4_0:
      return int8_panels<GroupTile<WeightType::kQ4_0>, kGroupedTileRows>(t, x);
    case WeightType::kQ4_K:
      return int8_panels<SuperTile<Q4_KStep>, kGroupedTileRows>(t, x);
    case WeightType::kQ6_K:
      return int8_panels<SuperTile<Q6_KStep>, kGroupedTileRows>(t, x);
    case WeightType::kInt4:
      return int8_panels<GroupTile<WeightType::kInt4>, kGroupedTileRows>(t, x);
    default:
      break;
  }
  if (grouped_type(t.format.type).table == CodeTable::kNone) {
    int8_panels<PlaneTile<false>, kGroupedTileRows>(t, x);
  } else {
    int8_panels<PlaneTile<true>, kGroupedTileRows>(t, x);
  }
}

}  // namespace
}  // namespace sida
