// Products of activations in 8 bits with weights whose groups of inputs have scales. See int8_gemm_impl.h.

#pragma once

#include "ops/cpu/rounded_rows_impl.h"
#include "ops/cpu/weight_steps_impl.h"

namespace sida {
namespace {

// The tiles hold their sums in arrays that must become registers, so the loops are unrolled by hand.

/// acc += the products of four inputs with unsigned weights.
template <size_t kRows>
[[gnu::always_inline]] inline void add_unsigned(I (&acc)[kRows][2], const RowPointers<uint8_t, kRows>& codes, I w0,
                                                I w1) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const I a = broadcast4(codes.row(r));
    acc[r][0] = I::dot(acc[r][0], w0, a);
    acc[r][1] = I::dot(acc[r][1], w1, a);
  }
}

/// Adds products of the rows' codes and signed bytes at `p`. Where products of unsigned and signed bytes are exact, 128
/// is added to the weights, once for all rows, and RoundedRows::sums takes it back.
template <size_t kRows>
[[gnu::always_inline]] inline void add_bytes(I (&acc)[kRows][2], const RowPointers<uint8_t, kRows>& codes,
                                             const std::byte* p) {
  const I w0 = I::load(p), w1 = I::load(p + 64);
  if constexpr (I::kZero != 0) {
    add_unsigned(acc, codes, I::plus_128(w0), I::plus_128(w1));
  } else {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const I a = broadcast4(codes.row(r));
      acc[r][0] = I::dot_signed(acc[r][0], a, w0);
      acc[r][1] = I::dot_signed(acc[r][1], a, w1);
    }
  }
}

/// acc += the products of eight inputs with the nibbles at `p`, of which `value` makes unsigned weights.
template <size_t kRows, class Value>
[[gnu::always_inline]] inline void add_nibbles(I (&acc)[kRows][2], const RowPointers<uint8_t, kRows>& codes,
                                               const std::byte* p, const Value& value) {
  const I w0 = I::load(p), w1 = I::load(p + 64);
  const I low0 = value(I::low_nibbles(w0)), low1 = value(I::low_nibbles(w1));
  const I high0 = value(I::high_nibbles(w0)), high1 = value(I::high_nibbles(w1));
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const I codes0 = broadcast4(codes.row(r)), codes4 = broadcast4(codes.row(r) + 4);
    acc[r][0] = I::dot(acc[r][0], low0, codes0);
    acc[r][1] = I::dot(acc[r][1], low1, codes0);
    acc[r][0] = I::dot(acc[r][0], high0, codes4);
    acc[r][1] = I::dot(acc[r][1], high1, codes4);
  }
}

constexpr auto kAsTheyAre = [](I nibbles) { return nibbles; };

/// acc += the products of one step of a group's codes.
template <WeightType kType, size_t kRows>
[[gnu::always_inline]] inline void add_group_step(I (&acc)[kRows][2], const RowPointers<uint8_t, kRows>& codes,
                                                  const std::byte* p) {
  if constexpr (kType == WeightType::kQ8_0) {
    add_bytes(acc, codes, p);
  } else if constexpr (kType == WeightType::kMxfp4) {
    add_nibbles(acc, codes, p, [](I nibbles) { return I::mxfp4(nibbles); });
  } else {
    add_nibbles(acc, codes, p, kAsTheyAre);
  }
}

/// The same of a type with numbers for 256 inputs, whose group begins at `p`.
template <class Step, size_t kRows>
[[gnu::always_inline]] inline void add_super_step(I (&acc)[kRows][2], const RowPointers<uint8_t, kRows>& codes,
                                                  const std::byte* p, size_t part, size_t step) {
  const std::byte* low = p + step * kPanelStepBytes;
  if constexpr (Step::kType == WeightType::kQ4_K) {
    add_nibbles(acc, codes, low, kAsTheyAre);
  } else {
    const std::byte* high = p + (4 + part) * kPanelStepBytes;
    const auto at = [&](size_t offset) {
      return I::int6(low + offset, high + offset, static_cast<unsigned>(part), static_cast<unsigned>(step));
    };
    add_unsigned(acc, codes, at(0), at(64));
  }
}

/// total += exact sums · scale.
template <size_t kRows>
[[gnu::always_inline]] inline void add_scaled(V (&total)[kRows][2], const I (&acc)[kRows][2], const V (&scale)[2]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    total[r][0] = V::fma(I::to_float(acc[r][0]), scale[0], total[r][0]);
    total[r][1] = V::fma(I::to_float(acc[r][1]), scale[1], total[r][1]);
  }
}

/// total += sums of the rows' codes, `groups` to a row, · less.
template <size_t kRows>
[[gnu::always_inline]] inline void add_minimum(V (&total)[kRows][2], const int32_t* sums, size_t groups,
                                               const V (&less)[2]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const V sum = V::set(static_cast<float>(sums[r * groups]));
    total[r][0] = V::fma(sum, less[0], total[r][0]);
    total[r][1] = V::fma(sum, less[1], total[r][1]);
  }
}

template <size_t kRows>
[[gnu::always_inline]] inline void store_totals(const GemmTask& t, const RoundedRows& x, size_t row,
                                                const V (&total)[kRows][2], float* y, size_t columns) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const V row_scale = V::set(x.scales[row + r]);
#pragma GCC unroll 2
    for (size_t c = 0; c < 2; ++c) {
      store_columns(t.epilogue, t.bias, V::mul(total[r][c], row_scale), y + r * t.y_stride, c, columns);
    }
  }
}

/// Weights whose groups have one scale each.
template <WeightType kType>
struct GroupTile {
  static GroupScales scales_of(const std::byte* p) {
    const bool bf16 = kType == WeightType::kInt4 || kType == WeightType::kMxfp4;
    return bf16 ? GroupScales::bf16(p) : GroupScales::f16(p);
  }

  template <size_t kRows>
  static void run(const GemmTask& t, const RoundedRows& x, size_t row, const std::byte* panel, float* y,
                  size_t columns) {
    RowPointers<uint8_t, kRows> codes(x.codes + row * x.stride, x.stride);
    const int32_t* sums = x.sums + row * x.groups;
    V total[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) total[r][0] = total[r][1] = V::set(0.0f);
    const std::byte* p = panel;
    for (size_t g = 0; g < x.groups; ++g) {
      const size_t begin = g * t.format.group;
      const size_t inputs = t.k - begin < t.format.group ? t.k - begin : t.format.group;
      I acc[kRows][2];
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = I::set(sums[r * x.groups + g]);
      const std::byte* end = p + code_bytes(inputs, kType);
      for (; p != end; p += kPanelStepBytes) {
        prefetch_step(p);
        add_group_step<kType>(acc, codes, p);
        codes.advance(inputs_per_step(kType));
      }
      add_scaled(total, acc, scales_of(p).of);
      p += kGroupScaleBytes;
    }
    store_totals(t, x, row, total, y, columns);
  }
};

/// Weights in planes.
template <bool kSigned>
struct PlaneTile {
  template <size_t kRows>
  static void run(const GemmTask& t, const RoundedRows& x, size_t row, const std::byte* panel, float* y,
                  size_t columns) {
    RowPointers<uint8_t, kRows> codes(x.codes + row * x.stride, x.stride);
    const int32_t* sums = x.sums + row * x.groups;
    V total[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) total[r][0] = total[r][1] = V::set(0.0f);
    PlaneGroups groups(t.format, panel);
    PlaneGroup group;
    const size_t parts = groups.parts(), steps = parts == 1 ? 8 : 4;
    const bool minimum = groups.type().minimum;
    for (size_t k = 0; k < t.k; k += 32) {
      groups.next(group);
      const std::byte* p = group.codes;
      for (size_t part = 0; part < parts; ++part, ++sums) {
        I acc[kRows][2];
#pragma GCC unroll 16
        for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = I::set(minimum ? 0 : sums[r * x.groups]);
#pragma GCC unroll 1
        for (size_t step = 0; step < steps; ++step, p += kPanelStepBytes) {
          if constexpr (kSigned) {
            add_bytes(acc, codes, p);
          } else {
            add_unsigned(acc, codes, I::load(p), I::load(p + 64));
          }
          codes.advance(4);
        }
        add_scaled(total, acc, group.of[part]);
        if (minimum) add_minimum(total, sums, x.groups, group.less[part]);
      }
    }
    store_totals(t, x, row, total, y, columns);
  }
};

/// Weights of q4_k or q6_k.
template <class Step>
struct SuperTile {
  template <size_t kRows>
  static void run(const GemmTask& t, const RoundedRows& x, size_t row, const std::byte* panel, float* y,
                  size_t columns) {
    constexpr size_t kGroup = 32, kCodes = code_bytes(kGroup, Step::kType);
    RowPointers<uint8_t, kRows> codes(x.codes + row * x.stride, x.stride);
    const int32_t* sums = x.sums + row * x.groups;
    V total[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) total[r][0] = total[r][1] = V::set(0.0f);
    const std::byte* p = panel;
    for (size_t begin = 0; begin < t.k; begin += kSuperInputs) {
      const auto super = Step::super(p);
      p += super_bytes(Step::kType);
      for (size_t group = 0; group < kSuperInputs / kGroup; ++group, p += kCodes + kGroupScaleBytes) {
        for (size_t part = 0; part < Step::kParts; ++part, ++sums) {
          constexpr bool kMinima = Step::kType == WeightType::kQ4_K;
          I acc[kRows][2];
#pragma GCC unroll 16
          for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = I::set(kMinima ? 0 : sums[r * x.groups]);
#pragma GCC unroll 1
          for (size_t step = 0; step < Step::kSteps; ++step) {
            const size_t line = (part * Step::kSteps + step) * kPanelStepBytes;
            if (line < kCodes + kGroupScaleBytes) prefetch_step(p + line);
            add_super_step<Step>(acc, codes, p, part, step);
            codes.advance(Step::kInputs);
          }
          const auto scales = Step::scales(p + kCodes, super, part);
          add_scaled(total, acc, scales.of);
          if constexpr (kMinima) add_minimum(total, sums, x.groups, scales.less);
        }
      }
    }
    store_totals(t, x, row, total, y, columns);
  }
};

}  // namespace
}  // namespace sida
