#include <algorithm>

#include "device/cuda/kernel_language.h"
#include "ops/cuda/rounded.h"
#include "ops/cuda/slice_sums.cuh"

namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct RowRanges {
  RowRange of[kMaxProducts];
};

constexpr size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// Whole slices, so that kernels read codes without looking at k.
constexpr size_t code_stride(size_t k) { return (k + kSliceInputs - 1) / kSliceInputs * kSliceInputs; }

/// As floats compare, so do the bits of magnitudes; a NaN is larger than all numbers.
__device__ uint32_t magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffU; }

__device__ uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/// The largest magnitude of the block's row, in every thread.
__device__ float largest(const float* row, uint32_t k) {
  uint32_t top = 0;
  for (uint32_t i = threadIdx.x; i < k; i += kThreads) top = larger(top, magnitude_bits(row[i]));
  for (unsigned step = 1; step < kWarp; step *= 2) top = larger(top, __shfl_xor_sync(kAllLanes, top, step));
  auto* tops = reinterpret_cast<uint32_t*>(dynamic_shared());
  if (threadIdx.x % kWarp == 0) tops[threadIdx.x / kWarp] = top;
  __syncthreads();
  for (unsigned i = 0; i < kThreads / kWarp; ++i) top = larger(top, tops[i]);
  return __uint_as_float(top);
}

/// As quantize_row() of ops/cpu/rounded_rows_impl.h. Block (x, y): row x of range y.
__global__ void __launch_bounds__(kThreads)
    round(const float* x, size_t x_stride, uint32_t k, const RowRanges ranges, const RoundedRows out) {
  const RowRange range = ranges.of[blockIdx.y];
  if (blockIdx.x >= range.count) return;
  const size_t row = range.first + blockIdx.x;
  const float* from = x + row * x_stride;
  const float top = largest(from, k);
  const bool finite = top < INFINITY;
  // Below this 127 / top overflows; such a row counts as zero.
  const bool zero = !finite || top < 1e-36f;
  const float inverse = 127.0f / top;
  auto* codes = reinterpret_cast<uint32_t*>(out.codes + row * out.stride);
  for (uint32_t word = threadIdx.x; word < out.stride / 4; word += kThreads) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t at = 4 * word + i;
      if (zero || at >= k) continue;
      // Adding 1.5 · 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
      const float shifted = __fadd_rn(__fmul_rn(from[at], inverse), 12582912.0f);
      bytes |= (__float_as_uint(shifted) & 255U) << (8 * i);
    }
    codes[word] = bytes;
  }
  if (threadIdx.x == 0) out.scales[row] = !finite ? NAN : zero ? 0.0f : top / 127.0f;
}

}  // namespace

size_t rounded_bytes(size_t rows, size_t k) { return aligned(rows * code_stride(k)) + aligned(rows * sizeof(float)); }

RoundedRows lay_out_rounded(std::byte* memory, size_t rows, size_t k) {
  return {reinterpret_cast<int8_t*>(memory), code_stride(k),
          reinterpret_cast<float*>(memory + aligned(rows * code_stride(k)))};
}

void round_rows(const float* x, size_t x_stride, size_t k, std::span<const RowRange> ranges, const RoundedRows& out,
                cudaStream_t stream) {
  RowRanges all{};
  std::ranges::copy(ranges, all.of);
  uint32_t most = 0;
  for (const RowRange& range : ranges) most = std::max(most, range.count);
  if (most == 0) return;
  const LaunchShape shape{{most, static_cast<unsigned>(ranges.size())}, kThreads, kThreads / kWarp * sizeof(uint32_t)};
  launch(round, shape, stream, x, x_stride, static_cast<uint32_t>(k), all, out);
}

}  // namespace sida::cuda
