// Rows of activations as products take them. See float_kernels_impl.h.

#pragma once

#include <cstring>
#include <limits>

#include "ops/cpu/kernels.h"

namespace sida {
namespace {

void quantize_row(const float* x, size_t k, size_t padded, unsigned zero, uint8_t* codes, float* scale) {
  // As integers, magnitudes compare as the floats do, and a NaN is larger than all of them.
  uint32_t top_bits = 0;
  for (size_t i = 0; i < k; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    top_bits = bits > top_bits ? bits : top_bits;
  }
  float top;
  std::memcpy(&top, &top_bits, 4);
  const bool finite = top_bits < 0x7f800000u;
  // Below this 127 / top overflows; such a row counts as zero.
  if (!finite || top < 1e-36f) {
    std::memset(codes, static_cast<int>(zero), padded);
    *scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const float inverse = 127.0f / top;
  for (size_t i = 0; i < k; ++i) {
    // Adding 1.5 · 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
    const float shifted = x[i] * inverse + 12582912.0f;
    uint32_t bits;
    std::memcpy(&bits, &shifted, 4);
    codes[i] = static_cast<uint8_t>(bits + zero);
  }
  std::memset(codes + k, static_cast<int>(zero), padded - k);
  *scale = top / 127.0f;
}

/// What RoundedRows::sums multiplies the sums of codes by. Weights are unsigned in products; those with signed bytes in
/// the kernel sets whose activations are unsigned before int8 weights.
constexpr int32_t sum_factor(WeightType type) {
  if (!grouped(type)) return 0;
  const GroupedType of = grouped_type(type);
  if (of.minimum) return 1;
  const bool signs = type == WeightType::kQ8_0 || of.table != CodeTable::kNone;
  return -static_cast<int32_t>(signs ? I::kZero : of.zero);
}

/// x (k) in bf16, then a zero where k is odd.
void round_to_bf16(const float* x, size_t k, uint16_t* to) {
  for (size_t i = 0; i < k; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    // Rounding could make an infinity of a NaN.
    to[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
  if (k % 2 != 0) to[k] = 0;
}

void round_rows(const RoundTask& t, const RoundedRows& out) {
  const WeightType type = t.format.type;
  if (has_bf16(type)) {
    for (size_t r = 0; r < t.rows; ++r) {
      round_to_bf16(t.x + r * t.x_stride, t.k, reinterpret_cast<uint16_t*>(out.codes + r * out.stride));
    }
    return;
  }
  const unsigned zero = type == WeightType::kInt8 ? I::kZero : 0;
  for (size_t r = 0; r < t.rows; ++r) {
    uint8_t* codes = out.codes + r * out.stride;
    quantize_row(t.x + r * t.x_stride, t.k, (t.k + 7) / 8 * 8, zero, codes, out.scales + r);
    if (sum_factor(type) == 0) {
      std::memset(out.sums + r * out.groups, 0, out.groups * sizeof(int32_t));
      continue;
    }
    const size_t group = scaled_inputs(t.format);
    for (size_t g = 0; g < out.groups; ++g) {
      const size_t begin = g * group;
      const size_t end = t.k - begin < group ? t.k : begin + group;
      int32_t sum = 0;
      for (size_t i = begin; i < end; ++i) sum += static_cast<int8_t>(codes[i]);
      out.sums[r * out.groups + g] = sum_factor(type) * sum;
    }
  }
}

I broadcast4(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return I::set(word);
}

}  // namespace
}  // namespace sida
