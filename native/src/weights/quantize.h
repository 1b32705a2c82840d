#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// Symmetric codes of `count` weights that share a scale: weight ≈ code · scale, codes in [-127, 127], rounded to
/// nearest even. The scale is max |weight| / 127; 0 where that is 0. Where a weight is NaN or infinite the scale is NaN
/// and the codes are 0, so that an invalid weight does not become a valid one.
float quantize_int8(const float* weight, size_t count, int8_t* codes);

/// The same with codes in [-7, 7] and a bf16 scale (its bits are returned). Codes are chosen for the rounded
/// scale.
uint16_t quantize_int4(const float* weight, size_t count, int8_t* codes);

/// Twice the value of each e2m1 nibble.
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// e2m1 nibbles of `count` weights that share a power of two, whose half is returned as the bits of a bf16; scale and
/// NaN as above. Weights that already are such numbers keep their values exactly.
uint16_t quantize_mxfp4(const float* weight, size_t count, uint8_t* nibbles);

/// Codes and an f16 scale of `count` weights, as ggml's reference packs them: codes in [-127, 127], chosen for the
/// scale before it is rounded, halves away from zero. NaN as above; also where the scale exceeds the largest f16.
uint16_t quantize_q8_0(const float* weight, size_t count, int8_t* codes);

/// The same with codes in [-8, 7]: -8 is the weight of the largest magnitude.
uint16_t quantize_q4_0(const float* weight, size_t count, int8_t* codes);

}  // namespace sida
