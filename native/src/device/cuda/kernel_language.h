#pragma once

// The language of the kernels: CUDA C++, and named functions for instructions that only PTX has. With
// SIDA_CUDA_EMULATED the headers of native/test/emulation-runtime replace those of the toolkit, and the same kernels
// run on the CPU.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef SIDA_CUDA_EMULATED
#include "emulated_instructions.h"
#endif

namespace sida::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  ///< dynamic shared memory
};

#ifdef SIDA_CUDA_EMULATED

using emulation::copy_async_16;
using emulation::copy_async_commit;
using emulation::copy_async_wait;
using emulation::dynamic_shared;
using emulation::load_once_16;
using emulation::masked_or;
using emulation::mma_bf16;
using emulation::mma_int8;

/// Starts `kernel` on `stream`. Errors show in cudaGetLastError().
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            std::type_identity_t<Parameters>... arguments) {
  emulation::launch(
      {reinterpret_cast<const void*>(kernel), (size_t{0} + ... + sizeof(Parameters)), [=] { kernel(arguments...); }},
      shape.grid, shape.block, shape.shared_bytes, stream);
}

#elif defined(__CUDACC__)

template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            std::type_identity_t<Parameters>... arguments) {
  // The formatter takes >>> apart, which nvcc does not read.
  // clang-format off
  kernel<<<shape.grid, shape.block, shape.shared_bytes, stream>>>(arguments...);
  // clang-format on
}

/// The block's dynamic shared memory, 16-byte aligned.
__device__ inline std::byte* dynamic_shared() {
  extern __shared__ __align__(16) std::byte shared_memory[];
  return shared_memory;
}

/// c (16, 8) += a (16, 16) · b (16, 8) by one warp, with the fragments of mma.sync.m16n8k16 (PTX ISA, 9.7.14.5.8). A
/// word of a carries two neighbours of a row, a word of b two of a column; the element of the smaller k is in the low
/// half.
__device__ inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// c (16, 8) += a (16, 32) · b (32, 8) of signed bytes by one warp, with the fragments of mma.sync.m16n8k32 (PTX ISA,
/// 9.7.14.5.11). A word of a carries four neighbours of a row, a word of b four of a column, the smallest k lowest.
__device__ inline void mma_int8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// (word & mask) | bits in one instruction. Written as operators, it becomes two where mask and bits are constants.
__device__ inline uint32_t masked_or(uint32_t word, uint32_t mask, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}

/// Loads 16 bytes, 16-byte aligned, that the kernel never writes and each block reads once. They displace nothing in
/// the L1 cache.
__device__ inline uint4 load_once_16(const void* global) {
  uint4 words;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
      : "l"(global));
  return words;
}

/// Starts copying 16 bytes from global to shared memory past the L1 cache; both 16-byte aligned.
__device__ inline void copy_async_16(void* shared, const void* global) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

/// Ends a group of copies of this thread.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `kGroups` of this thread's groups of copies are in flight.
template <int kGroups>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

#endif

}  // namespace sida::cuda
