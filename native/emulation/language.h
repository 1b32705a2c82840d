#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

// What the kernels use of CUDA C++.

// A block runs on one thread of the CPU from start to end, so what a block shares is that thread's.
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// The vector types of the toolkit's vector_types.h, with its alignments.
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}

  unsigned x, y, z;
};

constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// Of the thread that runs; the machine sets them when it switches threads.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;

template <class A, class B>
  requires std::is_integral_v<A> && std::is_integral_v<B>
constexpr std::common_type_t<A, B> min(A first, B second) {
  using Number = std::common_type_t<A, B>;
  return Number(second) < Number(first) ? Number(second) : Number(first);
}

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

template <class T>
T __ldg(const T* address) {
  return *address;
}

namespace sida::emulation {

/// Waits for all threads of the block.
void block_barrier();
/// Waits for the lanes of `mask` and orders memory among them, which the other warp functions do not.
void warp_barrier(unsigned mask);
/// The word of lane `source` of the warp, which must be in `mask`; all lanes of it call.
unsigned shuffle(unsigned mask, unsigned word, unsigned source);
/// The thread's index in its warp.
unsigned lane();

}  // namespace sida::emulation

inline void __syncthreads() { sida::emulation::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffU) { sida::emulation::warp_barrier(mask); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(
      sida::emulation::shuffle(mask, std::bit_cast<unsigned>(value), static_cast<unsigned>(source) % 32));
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  return __shfl_sync(mask, value, static_cast<int>(sida::emulation::lane()) ^ lane_mask);
}
