#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sida::cuda {

/// Floats that mma_peak() writes on a device of `multiprocessors`.
size_t mma_peak_outputs(unsigned multiprocessors);

/// Measures the peak that no product can exceed: every warp issues `steps` mma instructions on registers. `out`:
/// mma_peak_outputs() floats of the device. Returns the number of operations (multiply and add count as two) that it
/// started on `stream`.
double mma_peak(unsigned multiprocessors, size_t steps, float* out, cudaStream_t stream);

}  // namespace sida::cuda
