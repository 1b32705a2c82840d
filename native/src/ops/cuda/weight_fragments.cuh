#pragma once

#include <cstring>

#include "device/cuda/kernel_language.h"
#include "weights/panel_layout.h"

// Weights as b-fragments, straight from the panels' bytes. A lane (g = lane / 4, q = lane % 4) takes inputs
// 8q to 8q + 7 of every 32 and of these rows of the panel the 16 bytes of columns 4g to 4g + 3: tile j of the
// panel's four (8 columns each) is columns j, 4 + j, 8 + j, ... So loads are of 16 bytes and whole 128-byte
// rows, and of the sums a lane holds 8 neighbours of a row: columns 8q to 8q + 7, of tile j 8q + j and 8q + 4
// + j. Where 16 inputs share a scale a lane takes inputs 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3 of every 32, because
// they end with each step.
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

// A format: kLoads 16-byte loads of a lane per step pair (32 inputs of one panel), each of the inputs kLoadInputs after
// those of the load before, where they lie, the words of inputs that a panel does not hold, and the b-fragment of
// `step` (0 or 1) in a tile of quarter q. A lane's inputs are four from kHead · q on and four kTail after them.
// kAlternate: see split_inputs().

struct Neighbours {
  static constexpr uint32_t kHead = 8, kTail = 4;
};

struct Bf16Weights : Neighbours {
  static constexpr uint32_t kLoadInputs = 2;
  static constexpr WeightType kType = WeightType::kBf16;
  static constexpr int kLoads = 4;
  static constexpr bool kAlternate = false;
  static constexpr uint32_t kZeroes = 0;
  /// Offset in the panel of load `i` of inputs [first, first + 8).
  __device__ static size_t offset(uint32_t first, int i) {
    return (first / 2 + static_cast<uint32_t>(i)) * kPanelStepBytes;
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t, uint32_t (&b)[2]) {
    b[0] = word_of(words[2 * step], tile);
    b[1] = word_of(words[2 * step + 1], tile);
  }
};

/// Exponents as codes; decode() makes words of bf16 of them.
struct Bf16cWeights : Bf16Weights {
  static constexpr WeightType kType = WeightType::kBf16c;
  /// Of the panel's two planes and codes of a lane's inputs, then of the columns' bases. Never past k.
  static constexpr uint32_t kLoadInputs = 0;
  __device__ static size_t offset(uint32_t first, int i) {
    if (i == 3) return 0;
    return kPanelStepBytes + size_t{first / kCodedInputs} * kCodedBytes + static_cast<uint32_t>(i) * kPanelStepBytes;
  }
  /// The bytes of a lane's column `tile` in half `half` of 16 bytes.
  __device__ static uint32_t bytes_of(const uint4& words, int tile, int half) {
    return word_of(words, 2 * half + tile / 2) >> (16 * (tile % 2)) & 0xffffU;
  }
  __device__ static uint32_t spread(uint32_t bytes) { return (bytes & 0xffU) | (bytes & 0xff00U) << 8; }
  __device__ static uint32_t number(uint32_t rest, uint32_t codes, uint32_t bases) {
    const uint32_t coded = ((codes + 0x0f0fU) >> 4 & 0x0101U) * 255U;
    const uint32_t bits = spread(rest), exponents = spread((codes + bases) & coded);
    return (bits & 0x00800080U) << 8 | exponents << 7 | (bits & 0x007f007fU);
  }
  __device__ static uint32_t& word_at(uint4& words, int tile) {
    return tile == 0 ? words.x : tile == 1 ? words.y : tile == 2 ? words.z : words.w;
  }
  /// Of this lane's inputs of the step pair that begins with input `pair_begin`.
  __device__ static void decode(const std::byte* panel, uint32_t pair_begin, uint32_t k, uint32_t lane,
                                uint4 (&words)[kLoads]) {
    uint4 decoded[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint32_t codes = bytes_of(words[2], tile, load % 2) >> (4 * (load / 2)) & 0x0f0fU;
        word_at(decoded[load], tile) =
            number(bytes_of(words[load / 2], tile, load % 2), codes, bytes_of(words[3], tile, 0));
      }
    }
    if (pair_begin < k) put_escapes(panel, pair_begin / kEscapeInputs, k, lane, decoded);
#pragma unroll
    for (int load = 0; load < kLoads; ++load) words[load] = decoded[load];
  }
  /// No bytes of a panel make it read elsewhere.
  __device__ static void put_escapes(const std::byte* panel, uint32_t group, uint32_t k, uint32_t lane,
                                     uint4 (&decoded)[kLoads]) {
    const auto* starts = reinterpret_cast<const uint16_t*>(panel + starts_offset(k)) + group;
    const auto* escapes = reinterpret_cast<const uint32_t*>(panel + escapes_offset(k));
    const uint32_t end = min(uint32_t{starts[1]}, static_cast<uint32_t>(most_escapes(k)));
    for (uint32_t i = starts[0]; i < end; ++i) {
      const uint32_t place = escapes[i] >> 8, input = place / kPanelColumns % kEscapeInputs;
      const uint32_t column = place % kPanelColumns;
      if (place / kPanelColumns >= k) continue;
      if (input / kCodedInputs != lane % 4 || column / 4 != lane / 4) continue;
      const uint32_t shift = input % 2 * 16 + 7;
#pragma unroll
      for (uint32_t load = 0; load < kLoads; ++load) {
#pragma unroll
        for (uint32_t tile = 0; tile < kTiles; ++tile) {
          if (load != input % kCodedInputs / 2 || tile != column % 4) continue;
          uint32_t& word = word_at(decoded[load], static_cast<int>(tile));
          word = (word & ~(0xffU << shift)) | (escapes[i] & 0xffU) << shift;
        }
      }
    }
  }
};

struct Int8Weights : Neighbours {
  static constexpr uint32_t kLoadInputs = 4;
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
    return difference_of_pairs(masked_or(codes, 0x007f007fU, 0x43004300U), masked_or(codes, 0x00800080U, 0x43004300U));
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t, uint32_t (&b)[2]) {
    const uint32_t codes = word_of(words[step], tile);
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
};

/// The bits of an f16 in the low half of a word, as f32.
__device__ inline float f16_value(uint32_t half) {
  if ((half & 0x7c00U) == 0x7c00U) return __uint_as_float((half & 0x8000U) << 16 | 0x7f800000U | (half & 0x3ffU) << 13);
  // The product moves the exponent's bias from 15 to 127; it also normalizes a subnormal number.
  const float magnitude = __uint_as_float((half & 0x7fffU) << 13) * 0x1p112f;
  return half & 0x8000U ? -magnitude : magnitude;
}

/// What the bytes behind a group's codes, and those for 256 inputs, say of columns 8q to 8q + 7.
struct GroupWords {
  uint4 scales[2];
  uint4 supers[2];
};

/// Factors of the sums of 8 columns' codes, and of the sum of the inputs.
struct GroupFactors {
  float scale[8];
  float less[8];
};

/// Of each group of kGroup inputs the bytes lie together; all groups but the panel's last hold as many. kScaled inputs
/// share a scale, and with kMinimum a number to be added to all their weights.
template <WeightType kStored, uint32_t kGroupInputs>
struct GroupedWeights : Neighbours {
  static constexpr WeightType kType = kStored;
  static constexpr GroupedType kOf = grouped_type(kType);
  static constexpr uint32_t kGroup = kGroupInputs, kScaled = kGroup / kOf.parts;
  static constexpr bool kMinimum = kOf.minimum;
  static constexpr uint32_t kLoadInputs = inputs_per_step(kType);
  static constexpr uint32_t kGroupBytes = code_bytes(kGroup, kType) + scale_bytes(kType);
  static constexpr uint32_t kSuperBytes = super_bytes(kType), kSupers = kOf.supers, kWords = kOf.words;
  static constexpr uint32_t kBlockBytes = kSuperBytes + kSuperInputs / kGroup * kGroupBytes;
  static constexpr bool kAlternate = true;

  /// Where the group lies that holds input `first`.
  __device__ static size_t group_begin(uint32_t first) {
    return size_t{first / kSuperInputs} * kBlockBytes + kSuperBytes + first % kSuperInputs / kGroup * kGroupBytes;
  }
  __device__ static size_t scales_offset(uint32_t first, uint32_t k) {
    return group_begin(first) + code_bytes(min(k - first / kGroup * kGroup, kGroup), kType);
  }
  /// Where numbers `which` of the 256 inputs lie that hold input `first`.
  __device__ static size_t super_offset(uint32_t first, uint32_t which) {
    return size_t{first / kSuperInputs} * kBlockBytes + which * kGroupScaleBytes;
  }
};

/// Nibbles 8 above their codes.
template <WeightType kStored, uint32_t kGroupInputs>
struct NibbleWeights : GroupedWeights<kStored, kGroupInputs> {
  using Base = GroupedWeights<kStored, kGroupInputs>;
  static constexpr int kLoads = 1;
  static constexpr uint32_t kZeroes = 0x88888888U;
  __device__ static size_t offset(uint32_t first, int) {
    return Base::group_begin(first) + first % Base::kGroup / 8 * kPanelStepBytes;
  }
  /// Two codes, 8 above their value in bits 0 to 3 and 16 to 19, as bf16: 128 + 8 + code, less 136.
  __device__ static uint32_t pair(uint32_t codes) {
    return difference_of_pairs(masked_or(codes, 0x000f000fU, 0x43004300U), 0x43084308U);
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t, uint32_t (&b)[2]) {
    const uint32_t codes = word_of(words[0], tile) >> (4 * step);
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
};

__device__ inline void bf16_scales(const GroupWords& words, GroupFactors& factors) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    factors.scale[2 * i] = __uint_as_float(word_of(words.scales[0], i) << 16);
    factors.scale[2 * i + 1] = __uint_as_float(word_of(words.scales[0], i) & 0xffff0000U);
  }
}

__device__ inline void f16_scales(const uint4& words, float (&scale)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scale[2 * i] = f16_value(word_of(words, i) & 0xffffU);
    scale[2 * i + 1] = f16_value(word_of(words, i) >> 16);
  }
}

template <uint32_t kGroupInputs>
struct Int4Weights : NibbleWeights<WeightType::kInt4, kGroupInputs> {
  __device__ static void factors(const GroupWords& words, unsigned, GroupFactors& out) { bf16_scales(words, out); }
};

struct Q4_0Weights : NibbleWeights<WeightType::kQ4_0, 32> {
  __device__ static void factors(const GroupWords& words, unsigned, GroupFactors& out) {
    f16_scales(words.scales[0], out.scale);
  }
};

struct Q8_0Weights : GroupedWeights<WeightType::kQ8_0, 32> {
  static constexpr int kLoads = 2;
  static constexpr uint32_t kZeroes = 0;
  __device__ static size_t offset(uint32_t first, int i) {
    return group_begin(first) + (first % kGroup / 4 + static_cast<uint32_t>(i)) * kPanelStepBytes;
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t q, uint32_t (&b)[2]) {
    Int8Weights::fragment(words, tile, step, q, b);
  }
  __device__ static void factors(const GroupWords& words, unsigned, GroupFactors& out) {
    f16_scales(words.scales[0], out.scale);
  }
};

/// Scales and minimums of 8 bits, or of two parts 4 bits each, times those for 256 inputs.
template <unsigned kBits>
__device__ void super_factors(const GroupWords& words, unsigned part, GroupFactors& out) {
  f16_scales(words.supers[0], out.scale);
  f16_scales(words.supers[1], out.less);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = word_of(words.scales[0], i / 2) >> (16 * (i % 2) + 8 * part);
    out.scale[i] *= static_cast<float>(bits & ((1U << kBits) - 1));
    out.less[i] *= -static_cast<float>(bits >> kBits & ((1U << kBits) - 1));
  }
}

/// Signed scales of 8 bits times those for 256 inputs and the table's unit.
__device__ inline void signed_factors(const GroupWords& words, unsigned part, float unit, GroupFactors& out) {
  f16_scales(words.supers[0], out.scale);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t byte = word_of(words.scales[0], i / 2) >> (16 * (i % 2) + 8 * part);
    out.scale[i] *= static_cast<float>(static_cast<int8_t>(byte)) * unit;
  }
}

/// Nibbles that are the codes.
struct Q4_KWeights : NibbleWeights<WeightType::kQ4_K, 32> {
  static constexpr uint32_t kZeroes = 0;
  __device__ static uint32_t pair(uint32_t codes) {
    return difference_of_pairs(masked_or(codes, 0x000f000fU, 0x43004300U), 0x43004300U);
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t, uint32_t (&b)[2]) {
    const uint32_t codes = word_of(words[0], tile) >> (4 * step);
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
  __device__ static void factors(const GroupWords& words, unsigned, GroupFactors& out) {
    super_factors<8>(words, 0, out);
  }
};

struct Q6_KWeights : GroupedWeights<WeightType::kQ6_K, 32> {
  static constexpr uint32_t kHead = 4, kTail = 16;
  /// The low bits of a lane's inputs, then the high bits of its first four and of the others. Never past k.
  static constexpr int kLoads = 3;
  static constexpr uint32_t kLoadInputs = 0;
  static constexpr uint32_t kZeroes = 0;
  __device__ static size_t offset(uint32_t first, int i) {
    return group_begin(first) + (i == 0 ? first % kGroup / 8 : 3 + static_cast<uint32_t>(i)) * kPanelStepBytes;
  }
  /// Two codes, 32 above their value in bits 0 to 5 and 16 to 21, as bf16: 128 + 32 + code, less 160.
  __device__ static uint32_t pair(uint32_t codes) {
    return difference_of_pairs(masked_or(codes, 0x003f003fU, 0x43004300U), 0x43204320U);
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t q, uint32_t (&b)[2]) {
    const uint32_t low = word_of(words[0], tile) >> (4 * step), high = word_of(words[1 + step], tile) >> (2 * q);
    const uint32_t codes = (low & 0x0f0f0f0fU) | (high & 0x03030303U) << 4;
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
  __device__ static void factors(const GroupWords& words, unsigned part, GroupFactors& out) {
    signed_factors(words, part, 1, out);
  }
};

/// Eight numbers of a table, the first in the lowest byte.
constexpr uint64_t eight_numbers(CodeTable table, unsigned first) {
  uint64_t bytes = 0;
  for (unsigned i = 8; i-- > 0;) bytes = bytes << 8 | static_cast<uint8_t>(code_numbers(table).of[first + i]);
  return bytes;
}

/// The types whose codes lie in planes as panel_layout.h says, with one kernel each for few and for many rows.
template <WeightType kStored, uint32_t kGroupInputs = grouped_type(kStored).group>
struct PlaneWeights : GroupedWeights<kStored, kGroupInputs> {
  using Base = GroupedWeights<kStored, kGroupInputs>;
  using Base::kGroup, Base::kOf;
  static constexpr bool kHalves = Base::kScaled == 16;
  static constexpr uint32_t kHead = kHalves ? 4 : 8, kTail = kHalves ? 16 : 4;
  /// Codes of 4 bits have a word of a lane's inputs, of 2 bits one for either half of 32; high bits one for all 32.
  static constexpr int kLowLoads = kHalves ? 2 : 1, kLoads = kLowLoads + kOf.high;
  static constexpr uint32_t kLoadInputs = 0;
  static constexpr uint32_t kZeroes = 0;
  static_assert(kOf.high <= 1 && kOf.low == (kHalves ? 2 : 4));

  __device__ static size_t offset(uint32_t first, int i) {
    const uint32_t step = i == kLowLoads ? kOf.low : kHalves ? static_cast<uint32_t>(i) : first % kGroup / 8;
    return Base::group_begin(first) + step * kPanelStepBytes;
  }
  /// Two codes, in bits 0 to 7 and 16 to 23, as bf16.
  __device__ static uint32_t pair(uint32_t codes) {
    if constexpr (kOf.table != CodeTable::kNone) {
      // As bytes with signs.
      return Int8Weights::pair(value(codes) | value(codes >> 16) << 16);
    } else {
      constexpr uint32_t kZero = 0x4300U + kOf.zero;
      return difference_of_pairs(masked_or(codes, 0x001f001fU, 0x43004300U), kZero << 16 | kZero);
    }
  }
  static constexpr float kUnit = code_numbers(kOf.table).unit;
  static constexpr uint64_t kFirstNumbers = eight_numbers(kOf.table, 0), kLastNumbers = eight_numbers(kOf.table, 8);
  /// The number at a place of the table.
  __device__ static uint32_t value(uint32_t code) {
    const uint64_t half = kOf.low + kOf.high == 4 && (code & 8U) ? kLastNumbers : kFirstNumbers;
    return static_cast<uint32_t>(half >> (8 * (code & 7U))) & 255U;
  }
  /// Codes of the lane's inputs of a step, a byte each.
  __device__ static uint32_t plane_codes(const uint4 (&words)[kLoads], int tile, int step, uint32_t q) {
    uint32_t codes, place;
    if constexpr (kHalves) {
      codes = word_of(words[step], tile) >> (2 * q) & 0x03030303U;
      place = 4 * static_cast<uint32_t>(step) + q;
    } else {
      codes = word_of(words[0], tile) >> (4 * step) & 0x0f0f0f0fU;
      place = 2 * q + static_cast<uint32_t>(step);
    }
    if constexpr (kOf.high == 1) codes |= (word_of(words[kLowLoads], tile) >> place & 0x01010101U) << kOf.low;
    return codes;
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t q, uint32_t (&b)[2]) {
    const uint32_t codes = plane_codes(words, tile, step, q);
    b[0] = pair(codes);
    b[1] = pair(codes >> 8);
  }
  __device__ static void factors(const GroupWords& words, unsigned part, GroupFactors& out) {
    if constexpr (kOf.supers == 0) {
      f16_scales(words.scales[0], out.scale);
      if constexpr (kOf.minimum) f16_scales(words.scales[1], out.less);
    } else if constexpr (kOf.minimum) {
      super_factors<kHalves ? 4 : 8>(words, part, out);
    } else {
      signed_factors(words, part, kUnit, out);
    }
  }
};

/// As int4 in groups of 32; nibbles are e2m1 and stand for twice their value.
struct Mxfp4Weights : NibbleWeights<WeightType::kMxfp4, 32> {
  static constexpr uint32_t kZeroes = 0;
  __device__ static uint32_t magnitude(uint32_t nibble) {
    return static_cast<uint32_t>(0x0c08060403020100ULL >> (8 * (nibble & 7U))) & 15U;
  }
  /// Two nibbles, in bits 0 to 3 and 16 to 19, as bf16: 128 + magnitude, less 128, with their signs.
  __device__ static uint32_t pair(uint32_t nibbles) {
    const uint32_t magnitudes = magnitude(nibbles) | magnitude(nibbles >> 16) << 16;
    return difference_of_pairs(magnitudes | 0x43004300U, 0x43004300U) ^ (nibbles & 0x00080008U) << 12;
  }
  __device__ static void fragment(const uint4 (&words)[kLoads], int tile, int step, uint32_t, uint32_t (&b)[2]) {
    const uint32_t nibbles = word_of(words[0], tile) >> (4 * step);
    b[0] = pair(nibbles);
    b[1] = pair(nibbles >> 8);
  }
  __device__ static void factors(const GroupWords& words, unsigned, GroupFactors& out) { bf16_scales(words, out); }
};

/// Calls f with the Weights of a format other than f32.
template <class F>
void with_weights(WeightFormat format, const F& f) {
  if (format.type == WeightType::kBf16) return f(Bf16Weights{});
  if (format.type == WeightType::kBf16c) return f(Bf16cWeights{});
  if (format.type == WeightType::kInt8) return f(Int8Weights{});
  if (format.type == WeightType::kMxfp4) return f(Mxfp4Weights{});
  if (format.type == WeightType::kQ8_0) return f(Q8_0Weights{});
  if (format.type == WeightType::kQ4_0) return f(Q4_0Weights{});
  if (format.type == WeightType::kQ4_K) return f(Q4_KWeights{});
  if (format.type == WeightType::kQ6_K) return f(Q6_KWeights{});
  if (format.type == WeightType::kQ4_1) return f(PlaneWeights<WeightType::kQ4_1>{});
  if (format.type == WeightType::kQ5_0) return f(PlaneWeights<WeightType::kQ5_0>{});
  if (format.type == WeightType::kQ5_1) return f(PlaneWeights<WeightType::kQ5_1>{});
  if (format.type == WeightType::kQ5_K) return f(PlaneWeights<WeightType::kQ5_K>{});
  if (format.type == WeightType::kQ3_K) return f(PlaneWeights<WeightType::kQ3_K>{});
  if (format.type == WeightType::kQ2_K) return f(PlaneWeights<WeightType::kQ2_K>{});
  if (format.type == WeightType::kIq4Nl) return f(PlaneWeights<WeightType::kIq4Nl>{});
  if (format.type == WeightType::kIq4Xs) return f(PlaneWeights<WeightType::kIq4Xs>{});
  if (format.type == WeightType::kIq2) return f(PlaneWeights<WeightType::kIq2>{});
  if (format.type == WeightType::kIq3Xxs) return f(PlaneWeights<WeightType::kIq3Xxs>{});
  if (format.type == WeightType::kIq3S) return f(PlaneWeights<WeightType::kIq3S>{});
  if (format.group == 32) return f(Int4Weights<32>{});
  if (format.group == 64) return f(Int4Weights<64>{});
  f(Int4Weights<128>{});
}

}  // namespace sida::cuda
