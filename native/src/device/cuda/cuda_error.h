#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sida {

/// Throws device_failed with the call's name and CUDA's own words and number where `error` is one.
void cuda_check(cudaError_t error, const char* call);

/// cudaMallocHost(). Throws out_of_memory, device_failed.
void* allocate_page_locked(size_t bytes);

/// As cuda_check() of what launches before it have left.
void cuda_check_launches(const char* what);

}  // namespace sida
