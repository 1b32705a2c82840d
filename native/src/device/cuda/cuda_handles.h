#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "device/cuda/cuda_error.h"

namespace sida {

struct CudaEventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
struct CudaStreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct CudaGraphDeleter {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
struct CudaGraphExecDeleter {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
struct CudaDeviceDeleter {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
struct CudaHostDeleter {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};

using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, CudaEventDeleter>;
using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, CudaStreamDeleter>;
using CudaGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, CudaGraphDeleter>;
using CudaGraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, CudaGraphExecDeleter>;
/// Memory of the device.
using CudaDeviceMemory = std::unique_ptr<std::byte, CudaDeviceDeleter>;
/// Page-locked memory of the host.
template <class T>
using CudaHostArray = std::unique_ptr<T[], CudaHostDeleter>;

/// A host thread that waits for the event sleeps.
inline CudaEvent make_cuda_event() {
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
             "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

inline CudaStream make_cuda_stream() {
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return CudaStream(stream);
}

inline CudaDeviceMemory make_cuda_device_memory(size_t bytes) {
  std::byte* memory = nullptr;
  cuda_check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return CudaDeviceMemory(memory);
}

template <class T>
CudaHostArray<T> make_cuda_host_array(size_t count) {
  return CudaHostArray<T>(static_cast<T*>(allocate_page_locked(count * sizeof(T))));
}

}  // namespace sida
