#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda_runtime.h"

// What device/cuda/kernel_language.h has as PTX, under the same names, and the launch of a kernel.
namespace sida::emulation {

/// A kernel with its arguments: what one thread of it runs.
struct KernelCall {
  const void* kernel;     ///< by which cudaFuncSetAttribute() knows it
  size_t argument_bytes;  ///< of all arguments
  std::function<void()> run;
};

/// Queues a grid of `call` on `stream`. Errors show in cudaGetLastError().
void launch(KernelCall call, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);

/// The block's dynamic shared memory, 16-byte aligned; all bits set when the block starts.
std::byte* dynamic_shared();

/// c (16, 8) += a (16, 16) · b (16, 8) by one warp. Products are exact, sums f32 in the order of k.
void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

/// c (16, 8) += a (16, 32) · b (32, 8) of signed bytes by one warp; sums wrap.
void mma_int8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

inline uint32_t masked_or(uint32_t word, uint32_t mask, uint32_t bits) { return (word & mask) | bits; }

/// 16 bytes, 16-byte aligned.
uint4 load_once_16(const void* global);

/// Sets all bits of the 16 bytes; the copy itself waits for copy_async_wait().
void copy_async_16(void* shared, const void* global);
void copy_async_commit();
/// Copies all groups of this thread but the last `groups`.
void copy_async_finish(size_t groups);

template <int kGroups>
void copy_async_wait() {
  copy_async_finish(kGroups);
}

}  // namespace sida::emulation
