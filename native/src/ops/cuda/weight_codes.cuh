#pragma once

#include "ops/cuda/weight_fragments.cuh"

// Quantized weights as b-fragments of signed bytes, from the words that weight_fragments.cuh loads.
namespace sida::cuda {

/// Bytes below 128, each less `zero`.
__device__ inline uint32_t bytes_less(uint32_t bytes, uint32_t zero) {
  return ((bytes | 0x80808080U) - zero * 0x01010101U) ^ 0x80808080U;
}

/// value(code) of each byte.
template <class Value>
__device__ inline uint32_t bytes_by(uint32_t codes, const Value& value) {
  uint32_t bytes = 0;
#pragma unroll
  for (int i = 0; i < 32; i += 8) bytes |= (value(codes >> i & 255U) & 255U) << i;
  return bytes;
}

/// Codes of a lane's four inputs of `step` in a tile's column, less the code of 0; the numbers at their places in a
/// table.
template <class Weights>
__device__ inline uint32_t signed_codes(const uint4 (&words)[Weights::kLoads], int tile, int step, uint32_t q) {
  if constexpr (Weights::kType == WeightType::kInt8 || Weights::kType == WeightType::kQ8_0) {
    return word_of(words[step], tile);
  } else if constexpr (Weights::kType == WeightType::kMxfp4) {
    return bytes_by(word_of(words[0], tile) >> (4 * step) & 0x0f0f0f0fU, [](uint32_t nibble) {
      const uint32_t magnitude = Weights::magnitude(nibble);
      return nibble & 8U ? 0U - magnitude : magnitude;
    });
  } else if constexpr (Weights::kType == WeightType::kQ6_K) {
    const uint32_t low = word_of(words[0], tile) >> (4 * step), high = word_of(words[1 + step], tile) >> (2 * q);
    return bytes_less((low & 0x0f0f0f0fU) | (high & 0x03030303U) << 4, Weights::kOf.zero);
  } else if constexpr (!in_planes(Weights::kType)) {
    return bytes_less(word_of(words[0], tile) >> (4 * step) & 0x0f0f0f0fU, Weights::kOf.zero);
  } else {
    const uint32_t codes = Weights::plane_codes(words, tile, step, q);
    if constexpr (Weights::kOf.table != CodeTable::kNone) {
      return bytes_by(codes, [](uint32_t code) { return Weights::value(code); });
    } else {
      return bytes_less(codes, Weights::kOf.zero);
    }
  }
}

}  // namespace sida::cuda
