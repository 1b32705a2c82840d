#pragma once

#include <cstdint>

namespace sida {

/// GPU memory that the driver takes for a process that allocates nothing: its context, the kernels, streams.
struct CudaContext {
  uint64_t bytes = 0;
  bool measured = false;  ///< false: the usual size, because the driver tells no figures
};

/// Makes the context at the first call. A process has one. Throws device_failed.
const CudaContext& cuda_context();

/// Sets how the driver loads kernels. Call it before the first function of CUDA.
void load_kernels_with_context();

}  // namespace sida
