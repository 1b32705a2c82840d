#pragma once

#include "ops/cuda/choose_row.cuh"
#include "ops/cuda/gemm_arguments.cuh"
#include "ops/cuda/norm_row.cuh"

namespace sida::cuda {

/// Dynamic shared memory that run_end() takes in a block of `warps`.
inline size_t end_bytes(const GemmArguments& t, uint32_t warps) {
  return t.ends && t.end.normed == nullptr ? warps * scratch_candidates(t.end.router.spec) * sizeof(Candidate) : 0;
}

/// Whether this block is the launch's last one to get here, which then sees what all others have written.
__device__ inline bool is_last_block(unsigned* arrived) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
    last = atomicInc(arrived, others) == others;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/// Each block calls it when it has stored its outputs.
__device__ inline void run_end(const GemmArguments& t) {
  if (!t.ends || !is_last_block(t.end.arrived)) return;
  const ProductRows& product = t.products[0];
  const unsigned warp = threadIdx.x / kWarp;
  auto* scratch = reinterpret_cast<Candidate*>(dynamic_shared()) + warp * scratch_candidates(t.end.router.spec);
  for (uint32_t row = warp; row < product.rows; row += blockDim.x / kWarp) {
    const float* y = product.y + size_t{row} * product.n;
    if (t.end.normed != nullptr) {
      norm_row_of(y, t.end.norm, product.n, t.end.normed + size_t{row} * product.n);
    } else {
      const size_t choice = row * t.end.router.spec.top_k;
      choose_row_of(y, product.n, t.end.router, scratch, t.end.expert + choice, t.end.alpha + choice);
    }
    __syncwarp();
  }
}

}  // namespace sida::cuda
