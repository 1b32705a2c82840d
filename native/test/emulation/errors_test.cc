#ifdef SIDA_CUDA_EMULATED

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_handles.h"
#include "doctest/doctest.h"
#include "support/emulation_fixtures.h"

namespace sida::cuda {
namespace {

using namespace testing;

TEST_CASE("cuda emulation: memory has a limit, its own addresses, and NaNs when fresh") {
  const FreshDevice device;
  const size_t before = emulation::allocated_memory();
  emulation::set_total_memory(before + 3 * kBytes);
  const FreshFloats first;
  const FreshFloats second;
  CHECK(all_nan(first.read()));
  void* third = nullptr;
  CHECK(cudaMalloc(&third, kBytes + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  CHECK(free_bytes == kBytes);
  CHECK(total_bytes == before + 3 * kBytes);
  CHECK(cudaMalloc(&third, kBytes) == cudaSuccess);
  CHECK(cudaFree(third) == cudaSuccess);
  CHECK(cudaFree(third) == cudaErrorInvalidValue);

  std::vector<float> host(kCount + 1);
  CHECK(cudaMemcpy(first.data(), host.data(), kBytes + 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(first.data(), host.data(), kBytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
}

struct LargeArguments {
  std::array<float, 1025> values;
};

__global__ void take_arguments(LargeArguments) {}

TEST_CASE("cuda emulation: launches beyond the hardware's limits are refused") {
  const FreshDevice device;
  const FreshFloats memory;
  const auto refused = [&](const LaunchShape& shape) {
    launch(twice, shape, nullptr, memory.data(), memory.data(), 0U);
    return cudaGetLastError();
  };
  CHECK(refused({1, 1025}) == cudaErrorInvalidConfiguration);
  CHECK(refused({1, {1, 1, 65}}) == cudaErrorInvalidConfiguration);
  CHECK(refused({0, 32}) == cudaErrorInvalidConfiguration);
  CHECK(refused({{1, 65536}, 32}) == cudaErrorInvalidConfiguration);
  CHECK(refused({1, 1024, size_t{48} << 10}) == cudaSuccess);
  CHECK(refused({1, 32, (size_t{48} << 10) + 1}) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10) ==
        cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
  CHECK(refused({1, 32, size_t{227} << 10}) == cudaSuccess);
  launch(take_arguments, {1, 32}, nullptr, LargeArguments{});
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("cuda emulation: an injected error ends the device when its operation runs") {
  const FreshDevice device;
  const CudaStream stream = make_cuda_stream();
  const DeviceCopy<float> in(std::vector<float>(kCount, 1));
  const DeviceCopy<float> out(std::vector<float>(kCount, 0));
  const auto run = [&](emulation::Operation operation) {
    emulation::inject(operation, 2, cudaErrorIllegalAddress);
    for (int i = 0; i < 3; ++i) {
      launch_twice(in.data(), out.data(), stream.get());
      static_cast<void>(
          cudaMemcpyAsync(in.data(), out.data(), kBytes, cudaMemcpyDeviceToDevice, stream.get()));
    }
    CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorIllegalAddress);
    CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
    CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 4) == cudaErrorIllegalAddress);
    CHECK(memory == nullptr);
    emulation::reset();
    return std::pair(in.read()[0], out.read()[0]);
  };
  CHECK(run(emulation::Operation::kLaunch) == std::pair(2.0F, 2.0F));
  CHECK(run(emulation::Operation::kCopy) == std::pair(4.0F, 8.0F));

  emulation::inject(emulation::Operation::kCall, 2, cudaErrorLaunchFailure);
  int count = 0;
  CHECK(cudaGetDevice(&count) == cudaSuccess);
  CHECK(cudaGetDevice(&count) == cudaErrorLaunchFailure);
  CHECK(cudaGetDeviceCount(&count) == cudaErrorLaunchFailure);
  CHECK(std::string(cudaGetErrorName(cudaErrorLaunchFailure)) == "cudaErrorLaunchFailure");
}

TEST_CASE("cuda emulation: a machine may have no device") {
  const FreshDevice device;
  setenv("SIDA_EMULATION_DEVICES", "0", 1);
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(cudaSetDevice(0) == cudaErrorNoDevice);
  unsetenv("SIDA_EMULATION_DEVICES");
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace sida::cuda

#endif
