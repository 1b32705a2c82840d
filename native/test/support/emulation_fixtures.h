#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/cuda/kernel_language.h"
#include "emulation_control.h"
#include "support/device_copy.h"

// What the tests of the emulation share.
namespace sida::testing {

inline constexpr size_t kCount = 1000;
inline constexpr size_t kBytes = kCount * sizeof(float);

/// An emulated device without errors and settings of others, before and after a test.
struct FreshDevice {
  FreshDevice() { emulation::reset(); }
  ~FreshDevice() { emulation::reset(); }
};

/// Device memory for kCount floats, as it is when fresh.
class FreshFloats {
 public:
  FreshFloats() { require_success(cudaMalloc(&data_, kBytes)); }
  ~FreshFloats() { cudaFree(data_); }
  FreshFloats(const FreshFloats&) = delete;
  FreshFloats& operator=(const FreshFloats&) = delete;

  float* data() const { return data_; }
  std::vector<float> read() const {
    std::vector<float> values(kCount);
    require_success(cudaMemcpy(values.data(), data_, kBytes, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  float* data_ = nullptr;
};

/// to = 2 · from
__global__ inline void twice(const float* from, float* to, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = 2 * from[i];
}

inline void launch_twice(const float* from, float* to, cudaStream_t stream) {
  cuda::launch(twice, {(kCount + 127) / 128, 128}, stream, from, to, unsigned{kCount});
}

inline bool all(const std::vector<float>& values, float expected) {
  return std::all_of(values.begin(), values.end(), [&](float value) { return value == expected; });
}

inline bool all_nan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

}  // namespace sida::testing
