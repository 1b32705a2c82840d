// Weights of the types that sida only copies, but for q4_k and q6_k: one kernel serves all of them. 32 inputs at a time
// become bytes and scales in the L1 cache, which products then read as often as there are rows. See
// float_kernels_impl.h.

#pragma once

#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

/// 32 inputs of a panel's columns.
struct PlaneGroup {
  alignas(64) std::byte codes[32 * kPanelColumns];  ///< [8][32][4], signed where the type has a table
  /// [part][half]: a weight is code · of + less.
  V of[2][2], less[2][2];
};

/// Codes at `p` to bytes.
template <WeightType kType>
[[gnu::always_inline]] inline void unpack_planes(const std::byte* p, std::byte* codes) {
  constexpr GroupedType of = grouped_type(kType);
#pragma GCC unroll 8
  for (size_t w = 0; w < 8; ++w) {
    const std::byte* low = p + (of.low == 4 ? w / 2 : w / 4) * kPanelStepBytes;
    for (size_t half = 0; half < kPanelStepBytes; half += kPanelStepBytes / 2) {
      I code = of.low == 4 ? I::bits<4>(I::load(low + half), w % 2 * 4) : I::bits<2>(I::load(low + half), w % 4 * 2);
      if constexpr (of.high == 1) {
        const I high = I::bits<1>(I::load(p + of.low * kPanelStepBytes + half), w);
        code = I::with_high(code, high, of.low);
      }
      if constexpr (of.table != CodeTable::kNone) code = I::look_up(code_numbers(of.table).of, code);
      I::store(codes + w * kPanelStepBytes + half, code);
    }
  }
}

/// Scales of one part of `group`, behind whose codes they lie at `p`; `super`: numbers for 256 inputs.
template <WeightType kType>
[[gnu::always_inline]] inline void load_scales(const std::byte* super, const std::byte* p, size_t part, V (&of)[2],
                                               V (&less)[2]) {
  constexpr GroupedType type = grouped_type(kType);
#pragma GCC unroll 2
  for (size_t c = 0; c < 2; ++c, p += kGroupScaleBytes / 2, super += kGroupScaleBytes / 2) {
    if constexpr (type.supers == 0) {
      of[c] = V::load_f16(p);
      less[c] = type.minimum ? V::load_f16(p + kGroupScaleBytes) : V::set(-0.0f);
    } else if constexpr (type.minimum) {
      const unsigned bits = type.parts == 1 ? 8 : 4, shift = static_cast<unsigned>(8 * part);
      of[c] = V::mul(V::load_f16(super), V::load_bits(p, shift, bits));
      const V minimum = V::mul(V::load_f16(super + kGroupScaleBytes), V::load_bits(p, shift + bits, bits));
      less[c] = V::sub(V::set(-0.0f), minimum);
    } else {
      const V d = V::mul(V::load_f16(super), V::set(code_numbers(type.table).unit));
      of[c] = V::mul(d, V::load_signed_bytes(p, part));
      less[c] = V::set(-0.0f);
    }
  }
}

template <WeightType kType>
[[gnu::noinline]] void take_group(const std::byte* super, const std::byte* group, size_t part, PlaneGroup& out) {
  constexpr GroupedType of = grouped_type(kType);
  const std::byte* scales = group + code_bytes(of.group, kType);
  if constexpr (of.group == 64) {
    unpack_planes<kType>(group + part * 32 * of.low * kPanelColumns / 8, out.codes);
    load_scales<kType>(super, scales, part, out.of[0], out.less[0]);
  } else {
    unpack_planes<kType>(group, out.codes);
    for (size_t i = 0; i < of.parts; ++i) load_scales<kType>(super, scales, i, out.of[i], out.less[i]);
  }
}

/// Goes through a panel, 32 inputs at a time.
class PlaneGroups {
 public:
  PlaneGroups(WeightFormat format, const std::byte* panel)
      : type_(format.type), of_(grouped_type(type_)), group_(panel) {
    // Divisions by numbers of the type would take as long as products.
    group_bytes_ = code_bytes(of_.group, type_) + scale_bytes(type_);
    whole_ = of_.group == 32;
    share_ = whole_ ? group_bytes_ : group_bytes_ / 2;
  }

  /// Parts of 32 inputs that have scales of their own.
  size_t parts() const { return whole_ ? of_.parts : 1; }
  const GroupedType& type() const { return of_; }

  void next(PlaneGroup& out) {
    if (input_ % kSuperInputs == 0) {
      super_ = group_;
      group_ += super_bytes(type_);
    }
    const size_t part = whole_ ? 0 : input_ / 32 % 2;
    const std::byte* ahead = group_ + part * share_;
    for (size_t at = 0; at < share_; at += kPanelStepBytes) prefetch_step(ahead + at);
    take(part, out);
    input_ += 32;
    if (whole_ || part == 1) group_ += group_bytes_;
  }

 private:
  void take(size_t part, PlaneGroup& out) const {
    switch (type_) {
      case WeightType::kQ4_1:
        return take_group<WeightType::kQ4_1>(super_, group_, part, out);
      case WeightType::kQ5_0:
        return take_group<WeightType::kQ5_0>(super_, group_, part, out);
      case WeightType::kQ5_1:
        return take_group<WeightType::kQ5_1>(super_, group_, part, out);
      case WeightType::kQ5_K:
        return take_group<WeightType::kQ5_K>(super_, group_, part, out);
      case WeightType::kQ3_K:
        return take_group<WeightType::kQ3_K>(super_, group_, part, out);
      case WeightType::kQ2_K:
        return take_group<WeightType::kQ2_K>(super_, group_, part, out);
      case WeightType::kIq4Nl:
        return take_group<WeightType::kIq4Nl>(super_, group_, part, out);
      case WeightType::kIq4Xs:
        return take_group<WeightType::kIq4Xs>(super_, group_, part, out);
      case WeightType::kIq2:
        return take_group<WeightType::kIq2>(super_, group_, part, out);
      case WeightType::kIq3Xxs:
        return take_group<WeightType::kIq3Xxs>(super_, group_, part, out);
      default:
        return take_group<WeightType::kIq3S>(super_, group_, part, out);
    }
  }

  WeightType type_;
  GroupedType of_;
  const std::byte* group_;
  size_t group_bytes_, share_;
  bool whole_;  ///< a group has 32 inputs
  const std::byte* super_ = nullptr;
  size_t input_ = 0;
};

}  // namespace
}  // namespace sida
