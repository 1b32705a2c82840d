// The weights of a panel as floats, step by step: kInputs inputs of 32 columns, kPanelStepBytes of codes.
// See float_kernels_impl.h.

#pragma once

#include "ops/cpu/coded_panels_impl.h"
#include "ops/cpu/plane_groups_impl.h"

namespace sida {
namespace {

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

struct Bf16cStep : Bf16Step {
  static constexpr WeightType kType = WeightType::kBf16c;
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

// q4_k and q6_k: a group has kParts parts of kSteps steps, each part with scales of its own.

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
      const V of = V::load_bits(p + c * 32, 0, 8), minimum = V::load_bits(p + c * 32, 8, 8);
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

/// Any type in planes.
struct PlaneStep {
  static constexpr WeightType kType = WeightType::kQ5_K;
  static constexpr size_t kInputs = 4;
};

/// take(w, n) for each step of a panel in order: the weights of its n inputs. Returns where all codes and scales end.
template <class Step, class Take>
[[gnu::always_inline]] inline const std::byte* each_step(const GemmTask& t, const std::byte* p, const Take& take) {
  for (size_t k = 0; k < t.k;) {
    size_t end = t.k;
    if (grouped(Step::kType) && end - k > t.format.group) end = k + t.format.group;
    const auto scales = Step::scales(p + code_bytes(end - k, Step::kType));
    for (; k + Step::kInputs <= end; k += Step::kInputs, p += kPanelStepBytes) {
      prefetch_step(p);
      V w[Step::kInputs][2];
      Step::load(p, scales, w);
      take(w, Step::kInputs);
    }
    if (k < end) {
      V w[Step::kInputs][2];
      Step::load(p, scales, w);
      take(w, end - k);
      k = end;
      p += kPanelStepBytes;
    }
    if (grouped(Step::kType)) p += kGroupScaleBytes;
  }
  return p;
}

/// The same for bf16c.
template <class Step, class Take>
requires(Step::kType == WeightType::kBf16c)
    [[gnu::always_inline]] inline const std::byte* each_step(const GemmTask& t, const std::byte* p, const Take& take) {
  DecodedSteps steps(p, t.k);
  for (size_t begin = 0; begin < t.k; begin += kEscapeInputs) {
    const std::byte* step = steps.next();
    const size_t inputs = t.k - begin < kEscapeInputs ? t.k - begin : kEscapeInputs;
    for (size_t i = 0; i < inputs; i += 2, step += kPanelStepBytes) {
      V w[2][2];
      Step::load(step, {}, w);
      take(w, inputs - i < 2 ? 1 : 2);
    }
  }
  return p;
}

/// The same for types in planes.
template <class Step, class Take>
requires(in_planes(Step::kType))
    [[gnu::always_inline]] inline const std::byte* each_step(const GemmTask& t, const std::byte* p, const Take& take) {
  PlaneGroups groups(t.format, p);
  PlaneGroup group;
  // Bytes are made unsigned.
  const bool table = groups.type().table != CodeTable::kNone;
  const auto flip = static_cast<uint8_t>(table ? 128 : 0);
  const auto zero = static_cast<float>(table ? 128 : groups.type().zero);
  const size_t halves = groups.parts() - 1;
  for (size_t k = 0; k < t.k; k += 32) {
    groups.next(group);
#pragma GCC unroll 1
    for (size_t step = 0; step < 8; ++step) {
      const size_t part = step / 4 * halves;
      V w[4][2], half[4];
      for (size_t c = 0; c < 2; ++c) {
        V::load_bytes(group.codes + step * kPanelStepBytes + c * 64, flip, zero, half);
        for (size_t i = 0; i < 4; ++i) w[i][c] = V::fma(half[i], group.of[part][c], group.less[part][c]);
      }
      take(w, 4);
    }
  }
  return p;
}

/// The same for a type with numbers for 256 inputs.
template <class Step, class Take>
requires(in_super_blocks(Step::kType) && !in_planes(Step::kType))
    [[gnu::always_inline]] inline const std::byte* each_step(const GemmTask& t, const std::byte* p, const Take& take) {
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
          take(w, Step::kInputs);
        }
      }
    }
  }
  return p;
}

/// What a product is multiplied by behind an int8 panel's codes; 1 for the other types.
template <class Step>
V after_codes(const std::byte* p, size_t half, V sum) {
  if constexpr (Step::kType != WeightType::kInt8) return sum;
  return V::mul(sum, V::load(reinterpret_cast<const float*>(p) + 16 * half));
}

}  // namespace
}  // namespace sida
