// The GEMM with 8-bit activations on the tiles of AMX. Integer sums are exact in any order, so it has the bits of the
// other instruction sets. See float_kernels_impl.h.

#pragma once

#include "ops/cpu/amx_int8_group_impl.h"
#include "ops/cpu/int8_gemm_impl.h"

namespace sida {
namespace {

/// sums (rows, kPanelColumns) += the products of the inputs behind the last tile.
void add_int8_steps(const uint8_t* codes, size_t stride, size_t rows, const std::byte* panel, const std::byte* end,
                    int32_t* sums) {
  for (size_t r = 0; r < rows; ++r, codes += stride, sums += kPanelColumns) {
    I acc[2] = {I::load(sums), I::load(sums + kPanelColumns / 2)};
    const uint8_t* at = codes;
    for (const std::byte* p = panel; p != end; p += kPanelStepBytes, at += 4) {
      const I code = broadcast4(at);
      acc[0] = dot_int8(acc[0], code, I::load(p));
      acc[1] = dot_int8(acc[1], code, I::load(p + kPanelStepBytes / 2));
    }
    for (size_t c = 0; c < 2; ++c) I::store(sums + c * kPanelColumns / 2, acc[c]);
  }
}

/// A block of int8 weights: `rows` rows and one panel.
template <bool kTwo>
void int8_block(const GemmTask& t, const RoundedRows& x, size_t row, size_t rows, const std::byte* panel, float* y,
                size_t columns) {
  alignas(64) int32_t sums[kBlockRows * kPanelColumns];
  const std::byte* end = panel + code_bytes(t.k, WeightType::kInt8);
  const uint8_t* codes = x.codes + row * x.stride;
  const size_t tiles = static_cast<size_t>(end - panel) / (kTileSteps * kPanelStepBytes);
  clear_sums<kTwo>();
  for (size_t tile = 0; tile < tiles; ++tile) {
    add_products<WeightType::kInt8, kTwo>(codes, x.stride, panel);
    codes += kTileInputs;
    panel += kTileSteps * kPanelStepBytes;
  }
  store_sums<kTwo>(sums);
  if (panel != end) add_int8_steps(codes, x.stride, rows, panel, end, sums);
  const Int8Scales scales(end);
  const auto value = [&](size_t r, size_t c) {
    const I sum = I::load(sums + r * kPanelColumns + c * kPanelColumns / 2);
    return scales.output(sum, c, V::set(x.scales[row + r]));
  };
  store_block(t, rows, value, y, columns);
}

/// Of types in planes the one whose kernel serves them.
WeightType tile_type(WeightType type) {
  if (!in_planes(type)) return type;
  const GroupedType of = grouped_type(type);
  return of.table != CodeTable::kNone ? WeightType::kIq4Nl : of.minimum ? WeightType::kQ5_K : WeightType::kQ5_0;
}

/// A block of `rows` rows and one panel, on tiles of its shape.
template <bool kTwo>
void tile_block(const GemmTask& t, const RoundedRows& x, size_t row, size_t rows, size_t width, const std::byte* panel,
                float* y, size_t columns) {
  const WeightType type = tile_type(t.format.type);
  switch (type) {
    case WeightType::kInt8:
      return int8_block<kTwo>(t, x, row, rows, panel, y, columns);
    case WeightType::kInt4:
      return group_block<WeightType::kInt4, kTwo>(t, x, row, rows, width, panel, y, columns);
    case WeightType::kQ8_0:
      return group_block<WeightType::kQ8_0, kTwo>(t, x, row, rows, width, panel, y, columns);
    default:
      break;
  }
  // least_tile_rows() leaves the others no block without rows for the second tile.
  if constexpr (kTwo) {
    switch (type) {
      case WeightType::kMxfp4:
        return group_block<WeightType::kMxfp4, true>(t, x, row, rows, width, panel, y, columns);
      case WeightType::kQ4_K:
        return group_block<WeightType::kQ4_K, true>(t, x, row, rows, width, panel, y, columns);
      case WeightType::kQ6_K:
        return group_block<WeightType::kQ6_K, true>(t, x, row, rows, width, panel, y, columns);
      case WeightType::kQ5_0:
        return group_block<WeightType::kQ5_0, true>(t, x, row, rows, width, panel, y, columns);
      case WeightType::kQ5_K:
        return group_block<WeightType::kQ5_K, true>(t, x, row, rows, width, panel, y, columns);
      case WeightType::kIq4Nl:
        return group_block<WeightType::kIq4Nl, true>(t, x, row, rows, width, panel, y, columns);
      default:
        return group_block<WeightType::kQ4_0, true>(t, x, row, rows, width, panel, y, columns);
    }
  }
}

/// With fewer rows in a block the vector units are as fast. Tiles of fewer inputs spend longer on their sums, which
/// those of q8_0 make up for: its codes need not be unpacked.
size_t least_tile_rows(WeightType type, size_t width) {
  return width < kTileInputs && type != WeightType::kQ8_0 ? 24 : 12;
}

void gemm_int8_tiles(const GemmTask& t, const RoundedRows& x) {
  const WeightType type = t.format.type;
  const bool whole = type == WeightType::kInt8 || (type == WeightType::kInt4 && t.format.group >= kTileInputs);
  const size_t width = whole ? kTileInputs : scaled_inputs(t.format);
  const size_t last = t.rows % kBlockRows, rest = last < least_tile_rows(type, width) ? last : 0;
  GemmTask part = t;
  part.rows = t.rows - rest;
  if (part.rows > 0) {
    size_t shaped = 0;
    run_blocks<kBlockRows>(
        part, [&](const GemmTask& task, size_t row, size_t rows, const std::byte* panel, float* y, size_t columns) {
          if (rows != shaped) shape_tiles(shaped = rows, width);
          if (rows > kTileRows) {
            tile_block<true>(task, x, row, rows, width, panel, y, columns);
          } else {
            tile_block<false>(task, x, row, rows, width, panel, y, columns);
          }
        });
    _tile_release();
  }
  if (rest == 0) return;
  const RoundedRows below = x.from(part.rows);
  part.y += part.rows * t.y_stride;
  part.rows = rest;
  gemm_int8(part, below);
}

}  // namespace
}  // namespace sida
