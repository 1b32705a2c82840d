#pragma once

#include <cuda_runtime.h>

#include "support/test.h"

namespace sida::testing {

/// For suites of tests that need a device.
inline auto needs_cuda_device() {
  int devices = 0;
  return doctest::skip(cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0);
}

inline void require_success(cudaError_t error) {
  const std::string name = cudaGetErrorName(error);
  REQUIRE(name == "cudaSuccess");
}

/// Host data in device memory, filled at once and read back when all kernels are done.
template <class T>
class DeviceCopy {
 public:
  explicit DeviceCopy(std::span<const T> host) : count_(host.size()) {
    require_success(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<size_t>(host.size_bytes(), 1)));
    write(host);
  }
  explicit DeviceCopy(const std::vector<T>& host) : DeviceCopy(std::span<const T>(host)) {}
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() { cudaFree(data_); }

  T* data() const { return data_; }

  void write(std::span<const T> host) {
    require_success(cudaMemcpy(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<T> read() const {
    require_success(cudaGetLastError());
    require_success(cudaDeviceSynchronize());
    std::vector<T> host(count_);
    require_success(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

}  // namespace sida::testing
