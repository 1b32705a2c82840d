#pragma once

#include <cstring>

#include "device/cuda/kernel_language.h"
#include "ops/panel_layout.h"

// Weights as b-fragments, straight from the panels' bytes. A lane (g = lane / 4, q = lane % 4) takes inputs
// 8q to 8q + 7 of every 32 and of these rows of the panel the 16 bytes of columns 4g to 4g + 3: tile j of the
// panel's four (8 columns each) is columns j, 4 + j, 8 + j, ... So loads are of 16 bytes and whole 128-byte
// rows, and of the sums a lane holds 8 neighbours of a row: columns 8q to 8q + 7, of tile j 8q + j and 8q + 4
// + j.
namespace sida::cuda {

/// Column tiles of a panel.
inline constexpr int kTiles = 4;

__device__ inline uint32_t word_of(const uint4& words, int tile) {
  return tile == 0 ? words.x : tile == 1 ? words.y : tile == 2 ? words.z : words.w;
}

/// a - b of two bf16 each.
__device__ inline uint32_t difference_of_pairs(uint32_t a, uint32_t b) {
  __nv_bfloat162 x, y;
  memcpy(&x, &a, sizeof a);
  memcpy(&y, &b, sizeof b);
  const __nv_bfloat162 result = __hsub2(x, y);
  uint32_t bits;
  memcpy(&bits, &result, sizeof bits);
  return bits;
}

// A format: kLoads 16-byte loads of a lane per step pair (32 inputs of one panel), where they lie, the words
// of inputs that a panel does not hold, and the b-fragment of `step` (0 or 1) in a tile. kAlternate: see
// split_inputs().

struct Bf16Weights {
  static constexpr WeightType kType = WeightType::kBf16;
  static constexpr int kLoads = 4;
  static constexpr bool kAlternate = false;
  static constexpr uint32_t kZeroes = 0;
  /// Offset in the panel of load `i` of inputs [first, first + 8).
  __device__ static size_t offset(uint32_t first, int i) {
    return (first / 2 + static_cast<uint32_t>(i)) * kPanelStepBytes;
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t (&b)[2]) {
    b[0] = word_of(words[2 * step], tile);
    b[1] = word_of(words[2 * step + 1], tile);
  }
};

struct Int8Weights {
  static constexpr WeightType kType = WeightType::kInt8;
  static constexpr int kLoads = 2;
  static constexpr bool kAlternate = true;
  static constexpr uint32_t kZeroes = 0;
  __device__ static size_t offset(uint32_t first, int i) {
    return (first / 4 + static_cast<uint32_t>(i)) * kPanelStepBytes;
  }
  /// Two codes, in bits 0 to 7 and 16 to 23, as bf16. With the exponent of 128, the low seven bits read as 128 + bits,
  /// and the sign bit as 128 + sign. Their difference is exactly the code.
  __device__ static uint32_t pair(uint32_t codes) {
    return difference_of_pairs(masked_or(codes, 0x007f007fU, 0x43004300U),
                               masked_or(codes, 0x00800080U, 0x43004300U));
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t (&b)[2]) {
    const uint32_t codes = word_of(words[step], tile);
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
};

/// kGroup inputs share a scale; all groups but the panel's last hold as many.
template <uint32_t kGroupInputs>
struct Int4Weights {
  static constexpr uint32_t kGroup = kGroupInputs;
  static constexpr uint32_t kGroupBytes = int4_group_offset(kGroup, kGroup);
  static constexpr WeightType kType = WeightType::kInt4;
  static constexpr int kLoads = 1;
  static constexpr bool kAlternate = true;
  static constexpr uint32_t kZeroes = 0x88888888U;
  __device__ static size_t offset(uint32_t first, int) {
    return size_t{first / kGroup} * kGroupBytes + first % kGroup / 8 * kPanelStepBytes;
  }
  /// Where the scales of the group lie that holds input `first`.
  __device__ static size_t scales_offset(uint32_t first, uint32_t k) {
    const uint32_t inputs = min(k - first / kGroup * kGroup, kGroup);
    return size_t{first / kGroup} * kGroupBytes + (inputs + 7) / 8 * kPanelStepBytes;
  }
  /// Two codes, 8 above their value in bits 0 to 3 and 16 to 19, as bf16: 128 + 8 + code, less 136.
  __device__ static uint32_t pair(uint32_t codes) {
    return difference_of_pairs(masked_or(codes, 0x000f000fU, 0x43004300U), 0x43084308U);
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t (&b)[2]) {
    const uint32_t codes = word_of(words[0], tile) >> (4 * step);
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
};

/// As int4 in groups of 32; nibbles are e2m1 and stand for twice their value.
struct Mxfp4Weights : Int4Weights<32> {
  static constexpr WeightType kType = WeightType::kMxfp4;
  static constexpr uint32_t kZeroes = 0;
  __device__ static uint32_t magnitude(uint32_t nibble) {
    return static_cast<uint32_t>(0x0c08060403020100ULL >> (8 * (nibble & 7U))) & 15U;
  }
  /// Two nibbles, in bits 0 to 3 and 16 to 19, as bf16: 128 + magnitude, less 128, with their signs.
  __device__ static uint32_t pair(uint32_t nibbles) {
    const uint32_t magnitudes = magnitude(nibbles) | magnitude(nibbles >> 16) << 16;
    return difference_of_pairs(magnitudes | 0x43004300U, 0x43004300U) ^ (nibbles & 0x00080008U) << 12;
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t (&b)[2]) {
    const uint32_t nibbles = word_of(words[0], tile) >> (4 * step);
    b[0] = pair(nibbles);
    b[1] = pair(nibbles >> 8);
  }
};

/// Unpacks the scales of columns 8q to 8q + 7 from 16 bytes.
__device__ inline void unpack_scales(const uint4& words, float (&scale)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scale[2 * i] = __uint_as_float(word_of(words, i) << 16);
    scale[2 * i + 1] = __uint_as_float(word_of(words, i) & 0xffff0000U);
  }
}

/// Calls f with the Weights of a format other than f32.
template <class F>
void with_weights(WeightFormat format, const F& f) {
  if (format.type == WeightType::kBf16) return f(Bf16Weights{});
  if (format.type == WeightType::kInt8) return f(Int8Weights{});
  if (format.type == WeightType::kMxfp4) return f(Mxfp4Weights{});
  if (format.group == 32) return f(Int4Weights<32>{});
  if (format.group == 64) return f(Int4Weights<64>{});
  f(Int4Weights<128>{});
}

}  // namespace sida::cuda
