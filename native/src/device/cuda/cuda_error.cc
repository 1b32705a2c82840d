#include "device/cuda/cuda_error.h"

#include <string>

#include "core/error.h"

namespace sida {

void cuda_check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  // Clears the error, so that the next check of launches does not find it. An error that ends the device stays.
  cudaGetLastError();
  throw Error("device_failed",
              std::string("cuda: ") + call + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error),
              {{"cuda_error", static_cast<double>(error)}});
}

void* allocate_page_locked(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error
    throw Error("out_of_memory", "the machine has no " + std::to_string(bytes) + " bytes of page-locked memory left",
                {{"bytes", static_cast<double>(bytes)}});
  }
  cuda_check(error, "cudaMallocHost");
  return memory;
}

void cuda_check_launches(const char* what) { cuda_check(cudaGetLastError(), what); }

}  // namespace sida
