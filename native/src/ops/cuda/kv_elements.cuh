#pragma once

#include "device/cuda/kernel_language.h"
#include "ops/cuda/attention.h"

// Cached keys, values and latent rows as numbers: float, or bf16 in a uint16_t.
namespace sida::cuda {

__device__ inline float widened(uint32_t bits) { return __uint_as_float(bits << 16); }
__device__ inline uint16_t narrowed(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }

__device__ inline float load1(const float* from) { return *from; }
__device__ inline float load1(const uint16_t* from) { return widened(*from); }

__device__ inline float2 load2(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ inline float2 load2(const uint16_t* from) {
  const uint32_t pair = *reinterpret_cast<const uint32_t*>(from);
  return {widened(pair), __uint_as_float(pair & 0xffff0000U)};
}

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ inline float4 load4(const uint16_t* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  return {widened(bits.x), __uint_as_float(bits.x & 0xffff0000U), widened(bits.y),
          __uint_as_float(bits.y & 0xffff0000U)};
}

__device__ inline void store1(float* to, float value) { *to = value; }
__device__ inline void store1(uint16_t* to, float value) { *to = narrowed(value); }

__device__ inline void store4(float* to, float4 values) { *reinterpret_cast<float4*>(to) = values; }
__device__ inline void store4(uint16_t* to, float4 values) {
  *reinterpret_cast<uint2*>(to) = {uint32_t{narrowed(values.x)} | uint32_t{narrowed(values.y)} << 16,
                                   uint32_t{narrowed(values.z)} | uint32_t{narrowed(values.w)} << 16};
}

/// Entry p is the place of the sequence's page p, for pages from its first_page on.
__device__ inline const uint32_t* pages_of(const PagedBatch& batch, const PagedSequence& sequence) {
  return batch.page_table + (int64_t{sequence.pages} - int64_t{sequence.first_page});
}

}  // namespace sida::cuda
