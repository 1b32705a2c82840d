// The GEMM with 8-bit activations on the tiles of AMX. Integer sums are exact in any order, so it has the bits of the
// other instruction sets. See kernels_impl.h for `V`, `I` and why everything is in an unnamed namespace.

#pragma once

#include "ops/cpu/amx_tiles_impl.h"
#include "ops/cpu/int8_gemm_impl.h"

namespace sida {
namespace {

/// Inputs of one tile of activations, and steps of a panel in one tile of weights.
constexpr size_t kTileInputs = 64, kTileSteps = kTileInputs / 4;

/// Adds the products of one tile of inputs with weights of the type. int8 and q8_0 have signs, the others as they are
/// unpacked have none; activations have signs before all but int8.
template <WeightType kType, bool kTwo>
void add_products(const uint8_t* codes, size_t stride, const std::byte* weights) {
  _tile_loadd(4, codes, stride);
  _tile_loadd(6, weights, kPanelStepBytes);
  _tile_loadd(7, weights + kPanelStepBytes / 2, kPanelStepBytes);
  if constexpr (kTwo) _tile_loadd(5, codes + kTileRows * stride, stride);
  if constexpr (kType == WeightType::kInt8) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    if constexpr (!kTwo) return;
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  } else if constexpr (kType == WeightType::kQ8_0) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    if constexpr (!kTwo) return;
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  } else {
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    if constexpr (!kTwo) return;
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
}

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

/// Codes of `inputs` inputs at `p` as bytes of a tile of `width` inputs; zeros behind them.
template <WeightType kType>
void unpack(const std::byte* p, size_t inputs, size_t width, std::byte* weights) {
  const std::byte* end = p + code_bytes(inputs, kType);
  const std::byte* last = weights + code_bytes(width, WeightType::kInt8);
  // The intrinsics that load tiles do not tell the compiler that they read memory.
  __asm__ volatile("" : : : "memory");
  for (; p != end; p += kPanelStepBytes) {
    prefetch_step(p);
    for (size_t half = 0; half < kPanelStepBytes; half += kPanelStepBytes / 2) {
      const I codes = I::load(p + half);
      if constexpr (kType == WeightType::kQ8_0) {
        I::store(weights + half, codes);
      } else {
        const auto value = [](I nibbles) { return kType == WeightType::kMxfp4 ? I::mxfp4(nibbles) : nibbles; };
        I::store(weights + half, value(I::low_nibbles(codes)));
        I::store(weights + kPanelStepBytes + half, value(I::high_nibbles(codes)));
      }
    }
    weights += inputs_per_step(kType) / 4 * kPanelStepBytes;
  }
  for (; weights != last; weights += 64) I::store(weights, I::set(0));
  __asm__ volatile("" : : : "memory");
}

/// Adds the products of up to `width` inputs with their codes at `p`, which are unpacked to `weights` unless they are a
/// tile as they lie.
template <WeightType kType, bool kTwo>
void add_codes(const uint8_t* codes, size_t stride, const std::byte* p, size_t inputs, size_t width,
               std::byte* weights) {
  if (kType == WeightType::kQ8_0 && inputs == width) {
    for (size_t at = 0; at < width * kPanelColumns; at += kPanelStepBytes) prefetch_step(p + at);
    add_products<kType, kTwo>(codes, stride, p);
  } else {
    unpack<kType>(p, inputs, width, weights);
    add_products<kType, kTwo>(codes, stride, weights);
  }
}

/// Groups whose exact sums wait in the cache, so that the totals pass through registers once for all of them.
constexpr size_t kWaitingGroups = 4;

struct WaitingGroups {
  alignas(64) int32_t sums[kWaitingGroups][kBlockRows * kPanelColumns];
  /// `less`, of q4_k alone: what a sum of activation codes is multiplied by.
  V scales[kWaitingGroups][2], less[kWaitingGroups][2];
};

/// totals (rows, kPanelColumns) += the sums of the first kCount groups times their scales, in order. `code_sums`: those
/// of the first row, with `groups` to a row.
template <WeightType kType, size_t kCount>
void add_groups(const WaitingGroups& waiting, size_t rows, const int32_t* code_sums, size_t groups, float* totals) {
  for (size_t r = 0; r < rows; ++r, code_sums += groups) {
#pragma GCC unroll 2
    for (size_t c = 0; c < 2; ++c) {
      const size_t place = r * kPanelColumns + c * kPanelColumns / 2;
      V total = V::load(totals + place);
#pragma GCC unroll 4
      for (size_t g = 0; g < kCount; ++g) {
        I sum = I::load(waiting.sums[g] + place);
        // The tiles take signed weights as they are.
        constexpr bool kExcess = kType != WeightType::kQ8_0 && kType != WeightType::kQ4_K;
        if constexpr (kExcess) sum = I::add(sum, I::set(code_sums[g]));
        total = V::fma(I::to_float(sum), waiting.scales[g][c], total);
        if constexpr (kType == WeightType::kQ4_K) {
          total = V::fma(V::set(static_cast<float>(code_sums[g])), waiting.less[g][c], total);
        }
      }
      V::store(totals + place, total);
    }
  }
}

/// The numbers behind the codes of a group, which end at `p`. `super`: of q4_k, those of its 256 inputs.
template <WeightType kType>
void take_scales(const std::byte* p, const Q4_KStep::Super& super, size_t group, WaitingGroups* waiting) {
  if constexpr (kType == WeightType::kQ4_K) {
    const Q4_KStep::Scales scales = Q4_KStep::scales(p, super, 0);
    for (size_t c = 0; c < 2; ++c) {
      waiting->scales[group][c] = scales.of[c];
      waiting->less[group][c] = scales.less[c];
    }
  } else {
    const GroupScales scales = GroupTile<kType>::scales_of(p);
    for (size_t c = 0; c < 2; ++c) waiting->scales[group][c] = scales.of[c];
  }
}

/// A block of weights in groups that have scales, with tiles of `width` inputs.
template <WeightType kType, bool kTwo>
void group_block(const GemmTask& t, const RoundedRows& x, size_t row, size_t rows, size_t width,
                 const std::byte* panel, float* y, size_t columns) {
  alignas(64) float totals[kBlockRows * kPanelColumns] = {};
  alignas(64) std::byte weights[kTileSteps * kPanelStepBytes];
  WaitingGroups waiting;
  Q4_KStep::Super super;
  const uint8_t* codes = x.codes + row * x.stride;
  for (size_t g = 0; g < x.groups;) {
    const size_t count = x.groups - g < kWaitingGroups ? x.groups - g : kWaitingGroups;
    for (size_t i = 0; i < count; ++i) {
      const size_t begin = (g + i) * t.format.group;
      const size_t end = t.k - begin < t.format.group ? t.k : begin + t.format.group;
      if (kType == WeightType::kQ4_K && begin % kSuperInputs == 0) {
        super = Q4_KStep::super(panel);
        panel += super_bytes(kType);
      }
      clear_sums<kTwo>();
      for (size_t at = begin; at < end; at += width) {
        const size_t inputs = end - at < width ? end - at : width;
        add_codes<kType, kTwo>(codes + at, x.stride, panel, inputs, width, weights);
        panel += code_bytes(inputs, kType);
      }
      store_sums<kTwo>(waiting.sums[i]);
      take_scales<kType>(panel, super, i, &waiting);
      panel += kGroupScaleBytes;
    }
    with_rows<kWaitingGroups>(count, [&]<size_t kCount>() {
      add_groups<kType, kCount>(waiting, rows, x.sums + row * x.groups + g, x.groups, totals);
    });
    g += count;
  }
  const auto value = [&](size_t r, size_t c) {
    return V::mul(V::load(totals + r * kPanelColumns + c * kPanelColumns / 2), V::set(x.scales[row + r]));
  };
  store_block(t, rows, value, y, columns);
}

/// A block of `rows` rows and one panel, on tiles of its shape.
template <bool kTwo>
void tile_block(const GemmTask& t, const RoundedRows& x, size_t row, size_t rows, size_t width,
                const std::byte* panel, float* y, size_t columns) {
  switch (t.format.type) {
    case WeightType::kInt8:
      return int8_block<kTwo>(t, x, row, rows, panel, y, columns);
    case WeightType::kInt4:
      return group_block<WeightType::kInt4, kTwo>(t, x, row, rows, width, panel, y, columns);
    case WeightType::kMxfp4:
      return group_block<WeightType::kMxfp4, kTwo>(t, x, row, rows, width, panel, y, columns);
    case WeightType::kQ8_0:
      return group_block<WeightType::kQ8_0, kTwo>(t, x, row, rows, width, panel, y, columns);
    case WeightType::kQ4_K:
      return group_block<WeightType::kQ4_K, kTwo>(t, x, row, rows, width, panel, y, columns);
    default:
      return group_block<WeightType::kQ4_0, kTwo>(t, x, row, rows, width, panel, y, columns);
  }
}

/// With fewer rows in a block the vector units are as fast. Tiles of half the inputs spend longer on their sums, which
/// those of q8_0 make up for: its codes need not be unpacked.
size_t least_tile_rows(WeightType type, size_t width) {
  return width < kTileInputs && type != WeightType::kQ8_0 ? 24 : 12;
}

void gemm_int8_tiles(const GemmTask& t, const RoundedRows& x) {
  // Scales of 16 inputs would leave three quarters of a tile empty.
  const WeightType type = t.format.type;
  if (type == WeightType::kQ6_K) return gemm_int8(t, x);
  const bool whole = type == WeightType::kInt8 || t.format.group >= kTileInputs;
  const size_t width = whole ? kTileInputs : t.format.group;
  const size_t last = t.rows % kBlockRows, rest = last < least_tile_rows(type, width) ? last : 0;
  GemmTask part = t;
  part.rows = t.rows - rest;
  if (part.rows > 0) {
    size_t shaped = 0;
    run_blocks<kBlockRows>(part, [&](const GemmTask& task, size_t row, size_t rows, const std::byte* panel, float* y,
                                     size_t columns) {
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
