#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

// Stands in for the CUDA toolkit's header of this name: what the project uses of it.

/// The upper half of an f32.
struct alignas(2) __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) : __x(rounded(value)) {}
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(__x) << 16); }

  uint16_t __x;

 private:
  /// To the nearest, ties to even; every NaN becomes 0x7fff.
  static uint16_t rounded(float value) {
    if (std::isnan(value)) return 0x7fff;
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
  }
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {value}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {low, high}; }
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return {float{a.x} - b.x, float{a.y} - b.y}; }
