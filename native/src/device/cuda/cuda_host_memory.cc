#include "device/cuda/cuda_host_memory.h"

#include <cstring>

#include "core/error.h"
#include "device/cuda/cuda_error.h"

namespace sida {

std::byte* CudaHostMemory::allocate(size_t bytes, Touch /*touch*/) {
  try {
    return static_cast<std::byte*>(allocate_page_locked(bytes));
  } catch (const Error& error) {
    if (error.code() != "out_of_memory") throw;
    return nullptr;
  }
}

void CudaHostMemory::deallocate(std::byte* memory, size_t) { cudaFreeHost(memory); }

void CudaHostMemory::clear(std::byte* memory, size_t bytes) { std::memset(memory, 0, bytes); }

void CudaHostMemory::copy(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace sida
