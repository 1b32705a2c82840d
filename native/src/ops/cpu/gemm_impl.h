// The GEMM with f32 activations. See kernels_impl.h for `V` and why everything is in an unnamed namespace.
//
// What one output element is, in every instruction set and for any number of rows: one chain of fused
// multiply-adds over k, ascending, from 0. Its weights are the stored floats for f32 and bf16, and code · scale for the
// grouped types: exact in f32, but for q4_k, whose minimum is subtracted with one rounding. For int8 the chain runs
// over the codes and the scale multiplies its end.

#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

// The steps of each format: kInputs inputs of 32 columns, kPanelStepBytes of codes.

struct F32Step {
  static constexpr WeightType kType = WeightType::kF32;
  static constexpr size_t kInputs = 1;
  struct Scales {};
  static Scales scales(const std::byte*) { return {}; }
  static void load(const std::byte* p, const Scales&, V (&w)[kInputs][2]) {
    w[0][0] = V::load(reinterpret_cast<const float*>(p));
    w[0][1] = V::load(reinterpret_cast<const float*>(p) + 16);
  }
};

struct Bf16Step {
  static constexpr WeightType kType = WeightType::kBf16;
  static constexpr size_t kInputs = 2;
  struct Scales {};
  static Scales scales(const std::byte*) { return {}; }
  static void load(const std::byte* p, const Scales&, V (&w)[kInputs][2]) {
    V::load_bf16_pairs(p, w[0][0], w[1][0]);
    V::load_bf16_pairs(p + 64, w[0][1], w[1][1]);
  }
};

struct Int8Step {
  static constexpr WeightType kType = WeightType::kInt8;
  static constexpr size_t kInputs = 4;
  struct Scales {};
  static Scales scales(const std::byte*) { return {}; }
  static void load(const std::byte* p, const Scales&, V (&w)[kInputs][2]) {
    V half[kInputs];
    for (size_t c = 0; c < 2; ++c) {
      V::load_int8(p + c * 64, half);
      for (size_t i = 0; i < kInputs; ++i) w[i][c] = half[i];
    }
  }
};

/// The scales of a group of 32 columns.
struct GroupScales {
  V of[2];

  static GroupScales bf16(const std::byte* p) { return {{V::load_bf16(p), V::load_bf16(p + 32)}}; }
  static GroupScales f16(const std::byte* p) { return {{V::load_f16(p), V::load_f16(p + 32)}}; }
};

struct Int4Step {
  static constexpr WeightType kType = WeightType::kInt4;
  static constexpr size_t kInputs = 8;
  using Scales = GroupScales;
  static Scales scales(const std::byte* p) { return GroupScales::bf16(p); }
  static void load(const std::byte* p, const Scales& scales, V (&w)[kInputs][2]) {
    V half[kInputs];
    for (size_t c = 0; c < 2; ++c) {
      V::load_int4(p + c * 64, half);
      for (size_t i = 0; i < kInputs; ++i) w[i][c] = V::mul(half[i], scales.of[c]);
    }
  }
};

struct Mxfp4Step {
  static constexpr WeightType kType = WeightType::kMxfp4;
  static constexpr size_t kInputs = 8;
  using Scales = GroupScales;
  static Scales scales(const std::byte* p) { return GroupScales::bf16(p); }
  static void load(const std::byte* p, const Scales& scales, V (&w)[kInputs][2]) {
    V half[kInputs];
    for (size_t c = 0; c < 2; ++c) {
      V::load_mxfp4(p + c * 64, half);
      for (size_t i = 0; i < kInputs; ++i) w[i][c] = V::mul(half[i], scales.of[c]);
    }
  }
};

struct Q4_0Step : Int4Step {
  static constexpr WeightType kType = WeightType::kQ4_0;
  static Scales scales(const std::byte* p) { return GroupScales::f16(p); }
};

struct Q8_0Step {
  static constexpr WeightType kType = WeightType::kQ8_0;
  static constexpr size_t kInputs = 4;
  using Scales = GroupScales;
  static Scales scales(const std::byte* p) { return GroupScales::f16(p); }
  static void load(const std::byte* p, const Scales& scales, V (&w)[kInputs][2]) {
    Int8Step::load(p, {}, w);
    for (size_t i = 0; i < kInputs; ++i) {
      for (size_t c = 0; c < 2; ++c) w[i][c] = V::mul(w[i][c], scales.of[c]);
    }
  }
};

// Types with numbers for 256 inputs: a group has kParts parts of kSteps steps, each part with scales of its own.

struct Q4_KStep {
  static constexpr WeightType kType = WeightType::kQ4_K;
  static constexpr size_t kInputs = 8, kParts = 1, kSteps = 4;
  struct Super {
    GroupScales d, minimum;
  };
  static Super super(const std::byte* p) { return {GroupScales::f16(p), GroupScales::f16(p + kGroupScaleBytes)}; }
  struct Scales {
    V of[2], less[2];
  };
  static Scales scales(const std::byte* p, const Super& super, size_t) {
    Scales scales;
    for (size_t c = 0; c < 2; ++c) {
      V of, minimum;
      V::load_byte_pairs(p + c * 32, of, minimum);
      scales.of[c] = V::mul(super.d.of[c], of);
      scales.less[c] = V::sub(V::set(-0.0f), V::mul(super.minimum.of[c], minimum));
    }
    return scales;
  }
  static void load(const std::byte* codes, size_t, size_t step, const Scales& scales, V (&w)[kInputs][2]) {
    V half[kInputs];
    for (size_t c = 0; c < 2; ++c) {
      V::load_uint4(codes + step * kPanelStepBytes + c * 64, half);
      for (size_t i = 0; i < kInputs; ++i) w[i][c] = V::fma(half[i], scales.of[c], scales.less[c]);
    }
  }
};

struct Q6_KStep {
  static constexpr WeightType kType = WeightType::kQ6_K;
  static constexpr size_t kInputs = 4, kParts = 2, kSteps = 4;
  using Super = GroupScales;
  static Super super(const std::byte* p) { return GroupScales::f16(p); }
  using Scales = GroupScales;
  static Scales scales(const std::byte* p, const Super& super, size_t part) {
    const V own[2] = {V::load_signed_bytes(p, part), V::load_signed_bytes(p + 32, part)};
    return {{V::mul(super.of[0], own[0]), V::mul(super.of[1], own[1])}};
  }
  static void load(const std::byte* codes, size_t part, size_t step, const Scales& scales, V (&w)[kInputs][2]) {
    V half[kInputs];
    for (size_t c = 0; c < 2; ++c) {
      V::load_int6(codes + step * kPanelStepBytes + c * 64, codes + (4 + part) * kPanelStepBytes + c * 64,
                   static_cast<unsigned>(part), static_cast<unsigned>(step), half);
      for (size_t i = 0; i < kInputs; ++i) w[i][c] = V::mul(half[i], scales.of[c]);
    }
  }
};

/// acc += row r's x of one input times the panel's 32 weights of it.
template <size_t kRows>
[[gnu::always_inline]] inline void add_input(V (&acc)[kRows][2], const RowPointers<float, kRows>& x,
                                             size_t at, const V (&w)[2]) {
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const V a = V::set(x.row(r)[at]);
    acc[r][0] = V::fma(a, w[0], acc[r][0]);
    acc[r][1] = V::fma(a, w[1], acc[r][1]);
  }
}

/// acc += x · a panel, in steps that follow each other. Returns where the codes and scales of all k end.
template <class Step, size_t kRows>
[[gnu::always_inline]] inline const std::byte* add_steps(const GemmTask& t, RowPointers<float, kRows>& x,
                                                         const std::byte* p, V (&acc)[kRows][2]) {
  for (size_t k = 0; k < t.k;) {
    size_t end = t.k;
    if (grouped(Step::kType) && end - k > t.format.group) end = k + t.format.group;
    const auto scales = Step::scales(p + code_bytes(end - k, Step::kType));
    for (; k + Step::kInputs <= end; k += Step::kInputs, p += kPanelStepBytes) {
      prefetch_step(p);
      V w[Step::kInputs][2];
      Step::load(p, scales, w);
#pragma GCC unroll 8
      for (size_t i = 0; i < Step::kInputs; ++i) add_input(acc, x, i, w[i]);
      x.advance(Step::kInputs);
    }
    if (k < end) {
      V w[Step::kInputs][2];
      Step::load(p, scales, w);
      for (size_t i = 0; i < end - k; ++i) add_input(acc, x, i, w[i]);
      x.advance(end - k);
      k = end;
      p += kPanelStepBytes;
    }
    if (grouped(Step::kType)) p += kGroupScaleBytes;
  }
  return p;
}

/// acc += x · a panel of a type with numbers for 256 inputs.
template <class Step, size_t kRows>
[[gnu::always_inline]] inline void add_super_blocks(const GemmTask& t, RowPointers<float, kRows>& x,
                                                    const std::byte* p, V (&acc)[kRows][2]) {
  constexpr size_t kGroup = 32, kCodes = code_bytes(kGroup, Step::kType);
  for (size_t begin = 0; begin < t.k; begin += kSuperInputs) {
    const auto super = Step::super(p);
    p += super_bytes(Step::kType);
    for (size_t group = 0; group < kSuperInputs / kGroup; ++group, p += kCodes + kGroupScaleBytes) {
      for (size_t part = 0; part < Step::kParts; ++part) {
        const auto scales = Step::scales(p + kCodes, super, part);
#pragma GCC unroll 1
        for (size_t step = 0; step < Step::kSteps; ++step) {
          const size_t line = (part * Step::kSteps + step) * kPanelStepBytes;
          if (line < kCodes + kGroupScaleBytes) prefetch_step(p + line);
          V w[Step::kInputs][2];
          Step::load(p, part, step, scales, w);
#pragma GCC unroll 8
          for (size_t i = 0; i < Step::kInputs; ++i) add_input(acc, x, i, w[i]);
          x.advance(Step::kInputs);
        }
      }
    }
  }
}

template <class Step, size_t kRows>
void gemm_tile(const GemmTask& t, const float* first, const std::byte* panel, float* y, size_t columns) {
  V acc[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = V::set(0.0f);
  RowPointers<float, kRows> x(first, t.x_stride);
  const std::byte* p = panel;
  if constexpr (in_super_blocks(Step::kType)) {
    add_super_blocks<Step>(t, x, p, acc);
  } else {
    p = add_steps<Step>(t, x, p, acc);
  }
  if constexpr (Step::kType == WeightType::kInt8) {
    const auto* scales = reinterpret_cast<const float*>(p);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      acc[r][0] = V::mul(acc[r][0], V::load(scales));
      acc[r][1] = V::mul(acc[r][1], V::load(scales + 16));
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    store_columns(t.epilogue, t.bias, acc[r][0], y + r * t.y_stride, 0, columns);
    store_columns(t.epilogue, t.bias, acc[r][1], y + r * t.y_stride, 1, columns);
  }
}

template <class Step>
void gemm_panels(const GemmTask& t) {
  run_tiles<8>(t, []<size_t kRows>(const GemmTask& task, size_t row, const std::byte* panel, float* y, size_t columns) {
    gemm_tile<Step, kRows>(task, task.x + row * task.x_stride, panel, y, columns);
  });
}

void gemm(const GemmTask& t) {
  switch (t.format.type) {
    case WeightType::kF32:
      return gemm_panels<F32Step>(t);
    case WeightType::kBf16:
      return gemm_panels<Bf16Step>(t);
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
  }
}

}  // namespace
}  // namespace sida
