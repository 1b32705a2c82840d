#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "emulated_instructions.h"
#include "machine/block.h"
#include "runtime/runtime.h"

namespace sida::emulation {
namespace {

// Limits of compute capability 9.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
constexpr unsigned kMostThreads = 1024, kMostThreadsDeep = 64;
constexpr unsigned kMostBlocksWide = 0x7fffffff, kMostBlocksHigh = 65535;
constexpr size_t kSharedBytes = size_t{48} << 10;       ///< unless cudaFuncSetAttribute() raises it
constexpr size_t kMostSharedBytes = size_t{227} << 10;  ///< to which it can
constexpr size_t kMostArgumentBytes = size_t{4} << 10;  ///< what every driver takes

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
  std::fprintf(stderr, "emulated kernel: %s: %s\n", cudaGetErrorName(failure->error), failure->message);
  end_device(failure->error, failure->message);
}

}  // namespace

/// A kernel that finds the file takes it away.
bool fault_file_found() {
  static const char* const file = std::getenv("SIDA_EMULATION_FAULT_FILE");
  return file != nullptr && std::remove(file) == 0;
}

void launch(KernelCall kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  static_cast<void>(call([&] {
    const GridShape shape{grid, block, shared_bytes};
    if (const cudaError_t error = check(kernel, shape); error != cudaSuccess) return error;
    if (!captured(stream)) count(Counted::kLaunch);
    if (!captured(stream) && fault_file_found()) {
      return push_device_work(stream, [] { end_device(cudaErrorIllegalAddress, "a fault file"); });
    }
    return push_device_work(stream, [kernel = std::move(kernel), shape] { run(kernel, shape); });
  }));
}

}  // namespace sida::emulation

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  using namespace sida::emulation;
  return call([&] {
    if (value < 0 || static_cast<size_t>(value) > kMostSharedBytes) return cudaErrorInvalidValue;
    const std::lock_guard lock(shared_limits().mutex);
    shared_limits().bytes[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}
