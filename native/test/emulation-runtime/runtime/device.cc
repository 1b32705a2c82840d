// The device and the errors of its calls.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "emulation_control.h"
#include "runtime/runtime.h"

namespace sida::emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Errors {
  std::atomic<cudaError_t> sticky = cudaSuccess;
  std::mutex mutex;
  std::string failure;
};

// Streams may run until the process ends.
Errors& errors() {
  static auto& all = *new Errors();
  return all;
}

struct ErrorName {
  cudaError_t error;
  const char *name, *text;
};

constexpr ErrorName kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
};

constexpr int kVersion = 13000;

constinit std::atomic<uint64_t> counts[3];

cudaError_t check(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

}  // namespace

cudaError_t sticky_error() { return errors().sticky.load(std::memory_order_relaxed); }

void end_device(cudaError_t error, const std::string& why) {
  const std::lock_guard lock(errors().mutex);
  if (sticky_error() != cudaSuccess) return;
  errors().failure = why;
  errors().sticky.store(error, std::memory_order_relaxed);
}

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void clear_errors() {
  const std::lock_guard lock(errors().mutex);
  errors().sticky.store(cudaSuccess, std::memory_order_relaxed);
  errors().failure.clear();
  last_error = cudaSuccess;
}

std::string last_failure() {
  const std::lock_guard lock(errors().mutex);
  return errors().failure;
}

void count(Counted call) { counts[static_cast<size_t>(call)].fetch_add(1, std::memory_order_relaxed); }

Calls calls() { return {counts[0].load(), counts[1].load(), counts[2].load()}; }

void reset() {
  wait_for_all_streams();
  clear_errors();
}

uint64_t shuffle_seed() {
  const char* seed = std::getenv("SIDA_EMULATION_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

}  // namespace sida::emulation

using namespace sida::emulation;

cudaError_t cudaGetLastError() {
  const cudaError_t error = sticky_error() != cudaSuccess ? sticky_error() : last_error;
  last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) { return std::ranges::find(kErrors, error, &ErrorName::error)->name; }

const char* cudaGetErrorString(cudaError_t error) { return std::ranges::find(kErrors, error, &ErrorName::error)->text; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return call([] { return cudaSuccess; });
}

cudaError_t cudaGetDeviceCount(int* count) {
  const char* devices = std::getenv("SIDA_EMULATION_DEVICES");
  *count = devices != nullptr && std::strcmp(devices, "0") == 0 ? 0 : 1;
  return call([&] { return *count > 0 ? cudaSuccess : cudaErrorNoDevice; });
}

cudaError_t cudaSetDevice(int device) {
  return call([&] {
    const cudaError_t error = check(device);
    if (error == cudaSuccess) make_context();
    return error;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (const cudaError_t error = check(device); error != cudaSuccess) return error;
    *properties = {.name = "emulated on the CPU",
                   .totalGlobalMem = total_memory(),
                   .major = 9,
                   .minor = 0,
                   .multiProcessorCount = 2};
    return cudaSuccess;
  });
}
