// Products of activations in 8 bits, on the tiles of AMX, with weights whose groups of inputs have scales. See
// int8_gemm_impl.h.

#pragma once

#include "ops/cpu/amx_tiles_impl.h"
#include "ops/cpu/int8_group_impl.h"

namespace sida {
namespace {

/// Inputs of one tile of activations, and steps of a panel in one tile of weights.
constexpr size_t kTileInputs = 64, kTileSteps = kTileInputs / 4;

/// Of a grouped type: whether the bytes of its weights have signs.
constexpr bool with_signs(WeightType type) {
  return type == WeightType::kQ8_0 || grouped_type(type).table != CodeTable::kNone;
}

/// Adds the products of one tile of inputs with weights of the type. int8, q8_0 and types with a table have signs, the
/// others as they are unpacked have none; activations have signs before all but int8.
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
  } else if constexpr (with_signs(kType)) {
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

/// Codes of one of the two parts of a group of q6_k at `p` as bytes of a tile of 16 inputs.
inline void unpack_int6(const std::byte* p, size_t part, std::byte* weights) {
  const std::byte* high = p + (4 + part) * kPanelStepBytes;
  const std::byte* ahead = p + 4 * part * kPanelStepBytes;
  __asm__ volatile("" : : : "memory");
  for (size_t step = 0; step < 4; ++step, p += kPanelStepBytes, weights += kPanelStepBytes) {
    // The two parts read the same lines, and each prefetches half of the group's seven.
    if (part == 0 || step < 3) prefetch_step(ahead + step * kPanelStepBytes);
    for (size_t half = 0; half < kPanelStepBytes; half += kPanelStepBytes / 2) {
      const I codes = I::int6(p + half, high + half, static_cast<unsigned>(part), static_cast<unsigned>(step));
      I::store(weights + half, codes);
    }
  }
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
  /// `less`, of types with minimums: what a sum of activation codes is multiplied by.
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
        constexpr bool kMinimum = grouped_type(kType).minimum, kExcess = !with_signs(kType) && !kMinimum;
        if constexpr (kExcess) sum = I::add(sum, I::set(code_sums[g]));
        total = V::fma(I::to_float(sum), waiting.scales[g][c], total);
        if constexpr (kMinimum) {
          total = V::fma(V::set(static_cast<float>(code_sums[g])), waiting.less[g][c], total);
        }
      }
      V::store(totals + place, total);
    }
  }
}

template <class Scales>
void keep_scales(const Scales& scales, size_t group, WaitingGroups* waiting) {
  for (size_t c = 0; c < 2; ++c) {
    waiting->scales[group][c] = scales.of[c];
    if constexpr (requires { scales.less; }) waiting->less[group][c] = scales.less[c];
  }
}

/// The inputs that share a scale, one group after the other, of the types whose groups have one scale each.
template <WeightType kType>
class TileGroups {
 public:
  TileGroups(const GemmTask& t, const std::byte* panel) : t_(t), panel_(panel) {}

  /// Adds the products of the inputs from `begin` on that share a scale, with tiles of `width` inputs, and keeps the
  /// scales as those of `group`.
  template <bool kTwo>
  void add(const uint8_t* codes, size_t stride, size_t begin, size_t width, std::byte* weights, size_t group,
           WaitingGroups* waiting) {
    const size_t end = t_.k - begin < t_.format.group ? t_.k : begin + t_.format.group;
    for (size_t at = begin; at < end; at += width) {
      const size_t inputs = end - at < width ? end - at : width;
      add_codes<kType, kTwo>(codes + at, stride, panel_, inputs, width, weights);
      panel_ += code_bytes(inputs, kType);
    }
    keep_scales(GroupTile<kType>::scales_of(panel_), group, waiting);
    panel_ += kGroupScaleBytes;
  }

 private:
  const GemmTask& t_;
  const std::byte* panel_;
};

/// The same of the types in blocks of 256 inputs, whose tiles have all inputs of a scale.
template <class Step>
class SuperTileGroups {
 public:
  SuperTileGroups(const GemmTask&, const std::byte* panel) : panel_(panel) {}

  template <bool kTwo>
  void add(const uint8_t* codes, size_t stride, size_t begin, size_t width, std::byte* weights, size_t group,
           WaitingGroups* waiting) {
    constexpr size_t kCodes = code_bytes(32, Step::kType);
    const size_t part = begin / width % Step::kParts;
    if (begin % kSuperInputs == 0) {
      super_ = Step::super(panel_);
      panel_ += super_bytes(Step::kType);
    }
    if constexpr (Step::kType == WeightType::kQ6_K) {
      unpack_int6(panel_, part, weights);
      add_products<Step::kType, kTwo>(codes + begin, stride, weights);
    } else {
      add_codes<Step::kType, kTwo>(codes + begin, stride, panel_, width, width, weights);
    }
    keep_scales(Step::scales(panel_ + kCodes, super_, part), group, waiting);
    if (part + 1 == Step::kParts) panel_ += kCodes + kGroupScaleBytes;
  }

 private:
  const std::byte* panel_;
  typename Step::Super super_;
};

template <>
class TileGroups<WeightType::kQ4_K> : public SuperTileGroups<Q4_KStep> {
  using SuperTileGroups::SuperTileGroups;
};

template <>
class TileGroups<WeightType::kQ6_K> : public SuperTileGroups<Q6_KStep> {
  using SuperTileGroups::SuperTileGroups;
};

/// Multiplies weights of types in planes, 32 inputs at a time.
template <WeightType kType>
requires(in_planes(kType)) class TileGroups<kType> {
 public:
  TileGroups(const GemmTask& t, const std::byte* panel) : groups_(t.format, panel) {}

  template <bool kTwo>
  void add(const uint8_t* codes, size_t stride, size_t begin, size_t width, std::byte*, size_t group,
           WaitingGroups* waiting) {
    if (begin % 32 == 0) groups_.next(of_32_);
    const size_t part = begin % 32 / width;
    // The intrinsics that load tiles do not tell the compiler that they read memory.
    __asm__ volatile("" : : : "memory");
    add_products<kType, kTwo>(codes + begin, stride, of_32_.codes + part * width * kPanelColumns);
    __asm__ volatile("" : : : "memory");
    for (size_t c = 0; c < 2; ++c) {
      waiting->scales[group][c] = of_32_.of[part][c];
      waiting->less[group][c] = of_32_.less[part][c];
    }
  }

 private:
  PlaneGroups groups_;
  PlaneGroup of_32_;
};

/// A block of weights in groups that have scales, with tiles of `width` inputs.
template <WeightType kType, bool kTwo>
void group_block(const GemmTask& t, const RoundedRows& x, size_t row, size_t rows, size_t width, const std::byte* panel,
                 float* y, size_t columns) {
  alignas(64) float totals[kBlockRows * kPanelColumns] = {};
  alignas(64) std::byte weights[kTileSteps * kPanelStepBytes];
  WaitingGroups waiting;
  TileGroups<kType> tile_groups(t, panel);
  const uint8_t* codes = x.codes + row * x.stride;
  for (size_t g = 0; g < x.groups;) {
    const size_t count = x.groups - g < kWaitingGroups ? x.groups - g : kWaitingGroups;
    for (size_t i = 0; i < count; ++i) {
      clear_sums<kTwo>();
      tile_groups.template add<kTwo>(codes, x.stride, (g + i) * scaled_inputs(t.format), width, weights, i, &waiting);
      store_sums<kTwo>(waiting.sums[i]);
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

}  // namespace
}  // namespace sida
