#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "emulated_instructions.h"
#include "emulation_control.h"
#include "machine/multiprocessors.h"
#include "runtime/errors.h"
#include "runtime/launch_limits.h"
#include "runtime/streams.h"

namespace sida::emulation {
namespace {

/// Dynamic shared bytes that a kernel may ask for, where it was raised.
struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, size_t> bytes;
};

SharedLimits& shared_limits() {
  static SharedLimits all;
  return all;
}

size_t shared_limit(const void* kernel) {
  const std::lock_guard lock(shared_limits().mutex);
  const auto found = shared_limits().bytes.find(kernel);
  return found == shared_limits().bytes.end() ? kSharedBytes : found->second;
}

cudaError_t check(const KernelCall& call, const GridShape& shape) {
  const auto [grid, block, shared_bytes] = shape;
  if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMostThreads || block.y > kMostThreads ||
      block.z > kMostThreadsDeep || size_t{block.x} * block.y * block.z > kMostThreads) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMostBlocksWide || grid.y > kMostBlocksHigh ||
      grid.z > kMostBlocksHigh) {
    return cudaErrorInvalidConfiguration;
  }
  const bool too_much = shared_bytes > shared_limit(call.kernel) || call.argument_bytes > kMostArgumentBytes;
  return too_much ? cudaErrorInvalidValue : cudaSuccess;
}

void run(const KernelCall& call, const GridShape& shape) {
  const auto failure = run_grid(call.run, shape);
  if (!failure) return;
  std::fprintf(stderr, "emulated kernel: %s: %s\n", cudaGetErrorName(failure->error),
               failure->message);
  end_device(failure->error, failure->message);
}

}  // namespace

void launch(KernelCall kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  static_cast<void>(call([&] {
    const GridShape shape{grid, block, shared_bytes};
    if (const cudaError_t error = check(kernel, shape); error != cudaSuccess) return error;
    if (const cudaError_t error = injected(Operation::kLaunch); error != cudaSuccess) {
      return push_device_work(stream, [error] { end_device(error, "injected into a kernel"); });
    }
    return push_device_work(stream, [kernel = std::move(kernel), shape] { run(kernel, shape); });
  }));
}

}  // namespace sida::emulation

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  using namespace sida::emulation;
  return call([&] {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      return value < -1 || value > 100 ? cudaErrorInvalidValue : cudaSuccess;
    }
    if (value < 0 || static_cast<size_t>(value) > kMostSharedBytes) return cudaErrorInvalidValue;
    const std::lock_guard lock(shared_limits().mutex);
    shared_limits().bytes[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}
