#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sida::cuda {

/// Floats that mma_peak() writes on a device of `multiprocessors`.
size_t mma_peak_outputs(unsigned multiprocessors);

/// Nothing but the tensor cores' instruction that products are made of, `steps` in a row from registers in
/// every warp: what no product can exceed. `out`: mma_peak_outputs() floats of the device. Returns the
/// operations (multiply and add are two) that it started on `stream`.
double mma_peak(unsigned multiprocessors, size_t steps, float* out, cudaStream_t stream);

}  // namespace sida::cuda
