#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sida {

/// Throws device_failed with the call's name and CUDA's message and number, unless `error` is cudaSuccess.
void cuda_check(cudaError_t error, const char* call);

/// cudaMallocHost(). Throws out_of_memory, device_failed.
void* allocate_page_locked(size_t bytes);

/// cuda_check() of the error that earlier launches left, if any.
void cuda_check_launches(const char* what);

}  // namespace sida
