#pragma once

#include <cstring>

#include "device/cuda/kernel_language.h"

// f32 activations for the tensor cores, which multiply bf16: x = high + low + O(2^-17 x), both bf16. The 16 rows of an
// mma are the high parts of 8 rows and below them their low parts, so that 8 rows cost one mma and the two sums of an
// output element are in the same lane.
//
// A lane (row lane / 4, quarter q = lane % 4) holds 8 inputs of its row out of every 32, mostly the neighbours 8q to 8q
// + 7: two steps of 16 inputs, 4 of each to the lane. Which inputs a step's k stands for is free as long as
// weights agree.
namespace sida::cuda {

/// Rows that one mma takes.
inline constexpr uint32_t kTileRowsOfMma = 8;
/// Inputs of a step pair, which the four quarters hold together.
inline constexpr uint32_t kStepPairInputs = 32;

/// Four inputs of a row from `x` on, which is 16-byte aligned, and four `further` ones.
__device__ inline void load_vectors(const float* x, uint32_t further, float (&inputs)[8]) {
  const float4 head = *reinterpret_cast<const float4*>(x);
  const float4 tail = *reinterpret_cast<const float4*>(x + further);
  inputs[0] = head.x, inputs[1] = head.y, inputs[2] = head.z, inputs[3] = head.w;
  inputs[4] = tail.x, inputs[5] = tail.y, inputs[6] = tail.z, inputs[7] = tail.w;
}

/// The same inputs of a row of k, from `first` on; those past k are 0.
__device__ inline void load_floats(const float* row, uint32_t first, uint32_t further, uint32_t k, float (&inputs)[8]) {
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t input = first + i % 4 + i / 4 * further;
    inputs[i] = input < k ? row[input] : 0.0f;
  }
}

/// Two floats as bf16, rounded to nearest even, in the two halves of a word.
__device__ inline uint32_t bf16_pair(float low_half, float high_half) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low_half, high_half);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// The words of the high and of the low parts of two inputs.
__device__ inline void split_pair(float first, float second, uint32_t& high, uint32_t& low) {
  high = bf16_pair(first, second);
  low = bf16_pair(first - __uint_as_float(high << 16), second - __uint_as_float(high & 0xffff0000U));
}

/// The a-fragments of both steps. A word holds two neighbours, or with kAlternate every other input, which is the order
/// of weights unpacked from bytes.
template <bool kAlternate>
__device__ inline void split_inputs(const float (&x)[8], uint32_t (&a)[2][4]) {
  constexpr int kPartner = kAlternate ? 2 : 1, kNext = kAlternate ? 1 : 2;
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const float* inputs = x + 4 * step;
    split_pair(inputs[0], inputs[kPartner], a[step][0], a[step][1]);
    split_pair(inputs[kNext], inputs[kNext + kPartner], a[step][2], a[step][3]);
  }
}

/// The sum over both parts. Where the sum of the high parts is not finite the sum of the low parts is ignored: their
/// input was infinity - infinity.
__device__ inline float sum_of_parts(float high, float low) {
  return fabsf(high) <= 3.402823466e38f ? high + low : high;
}

}  // namespace sida::cuda
