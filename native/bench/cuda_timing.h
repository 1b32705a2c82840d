// Time and memory of a cuda device for benches.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace sida {

inline void require_success(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

inline std::byte* device_memory(size_t bytes) {
  void* memory = nullptr;
  require_success(cudaMalloc(&memory, bytes), "device memory");
  return static_cast<std::byte*>(memory);
}

template <class T>
T* device_copy(const std::vector<T>& host) {
  auto* memory = reinterpret_cast<T*>(device_memory(host.size() * sizeof(T)));
  require_success(cudaMemcpy(memory, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return memory;
}

/// Seconds of the device between two moments of its stream.
class DeviceTimer {
 public:
  DeviceTimer() {
    require_success(cudaEventCreate(&start_), "event");
    require_success(cudaEventCreate(&end_), "event");
  }
  ~DeviceTimer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }

  template <class F>
  double seconds_of(const F& body) {
    require_success(cudaEventRecord(start_, nullptr), "event");
    body();
    require_success(cudaEventRecord(end_, nullptr), "event");
    require_success(cudaEventSynchronize(end_), "kernels");
    float milliseconds = 0;
    require_success(cudaEventElapsedTime(&milliseconds, start_, end_), "event");
    return milliseconds / 1e3;
  }

 private:
  cudaEvent_t start_, end_;
};

/// Bytes per second of a copy inside the device's memory, reads and writes counted. `memory` holds `bytes`.
inline double copy_bandwidth(DeviceTimer& timer, std::byte* memory, size_t bytes) {
  const double seconds = timer.seconds_of([&] {
    require_success(cudaMemcpyAsync(memory, memory + bytes / 2, bytes / 2, cudaMemcpyDeviceToDevice, nullptr), "copy");
  });
  return static_cast<double>(bytes / 2 * 2) / seconds;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace sida
