#include <cstdlib>
#include <cstring>

#include "emulation_control.h"
#include "runtime/api.h"
#include "runtime/errors.h"
#include "runtime/launch_limits.h"
#include "runtime/memory.h"
#include "runtime/streams.h"

namespace sida::emulation {
namespace {

constexpr int kVersion = 13000;

/// SIDA_EMULATION_DEVICES: 1, or 0 for a machine without one.
int device_count() {
  const char* count = std::getenv("SIDA_EMULATION_DEVICES");
  return count != nullptr && std::strcmp(count, "0") == 0 ? 0 : 1;
}

cudaError_t check(int device, const void* result) {
  if (device_count() == 0) return cudaErrorNoDevice;
  if (device != 0) return cudaErrorInvalidDevice;
  return result == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}

cudaDeviceProp properties() {
  cudaDeviceProp device = {};
  std::strcpy(device.name, "emulated on the CPU");
  device.totalGlobalMem = total_memory();
  device.sharedMemPerBlock = kSharedBytes;
  device.sharedMemPerBlockOptin = kMostSharedBytes;
  device.sharedMemPerMultiprocessor = kMostSharedBytes + 1024;
  device.regsPerBlock = 65536;
  device.warpSize = 32;
  device.maxThreadsPerBlock = kMostThreads;
  device.maxThreadsDim[0] = device.maxThreadsDim[1] = kMostThreads;
  device.maxThreadsDim[2] = kMostThreadsDeep;
  device.maxGridSize[0] = kMostBlocksWide;
  device.maxGridSize[1] = device.maxGridSize[2] = kMostBlocksHigh;
  device.maxThreadsPerMultiProcessor = 2048;
  device.major = 9;
  device.multiProcessorCount = 2;
  device.canMapHostMemory = device.concurrentKernels = device.unifiedAddressing = 1;
  device.asyncEngineCount = 2;
  device.memoryBusWidth = 64;
  device.l2CacheSize = 1 << 20;
  return device;
}

cudaError_t attribute_of(cudaDeviceAttr attribute, int& value) {
  const cudaDeviceProp device = properties();
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      value = device.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      value = static_cast<int>(device.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      value = device.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      value = device.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      value = device.l2CacheSize;
      break;
    case cudaDevAttrAsyncEngineCount:
      value = device.asyncEngineCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      value = device.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      value = device.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      value = static_cast<int>(device.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      value = static_cast<int>(device.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrConcurrentKernels:
      value = device.concurrentKernels;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      value = device.memoryBusWidth;
      break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrPciBusId:
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      value = 0;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace

void reset() {
  wait_for_all_streams();
  clear_errors();
  set_total_memory(size_t{4} << 30);
  set_longest_delay(0);
}

uint64_t shuffle_seed() {
  const char* seed = std::getenv("SIDA_EMULATION_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

}  // namespace sida::emulation

using sida::emulation::call;
using sida::emulation::check;

cudaError_t cudaDriverGetVersion(int* version) {
  return call([&] {
    *version = sida::emulation::device_count() == 0 ? 0 : sida::emulation::kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call([&] {
    *version = sida::emulation::kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] {
    *count = sida::emulation::device_count();
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call([&] {
    if (const cudaError_t error = check(0, device); error != cudaSuccess) return error;
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&] { return check(device, &device); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (const cudaError_t error = check(device, properties); error != cudaSuccess) return error;
    *properties = sida::emulation::properties();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&] {
    if (const cudaError_t error = check(device, value); error != cudaSuccess) return error;
    return sida::emulation::attribute_of(attribute, *value);
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}
