#pragma once

#include "ops/cuda/gemm_arguments.cuh"

namespace sida::cuda {

// Each takes all products of the launch; gemm() chooses the kernel by the number of rows.

/// Weights of any type but f32: the warps of a block share the slices of a panel or two, for up to 16 rows.
void gemm_few_rows(WeightFormat format, const GemmArguments& arguments, cudaStream_t stream);

/// Weights of any type but f32: a block's warps share the weights of some panels, for up to 64 rows.
void gemm_many_rows(WeightFormat format, const GemmArguments& arguments, cudaStream_t stream);

/// Blocks that gemm_many_rows() would launch.
size_t many_rows_blocks(const GemmArguments& arguments);

/// Weights in f32.
void gemm_f32(const GemmArguments& arguments, cudaStream_t stream);

}  // namespace sida::cuda
