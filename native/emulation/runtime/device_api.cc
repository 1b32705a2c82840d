#include <cstdlib>
#include <cstring>

#include "emulation_control.h"
#include "runtime/api.h"
#include "runtime/errors.h"
#include "runtime/memory.h"
#include "runtime/streams.h"

namespace sida::emulation {
namespace {

constexpr int kVersion = 13000;

cudaError_t check(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

}  // namespace

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

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return call([] { return cudaSuccess; });
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return call([] { return cudaSuccess; });
}

cudaError_t cudaSetDevice(int device) {
  return call([&] { return check(device); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (const cudaError_t error = check(device); error != cudaSuccess) return error;
    *properties = {.name = "emulated on the CPU",
                   .totalGlobalMem = kTotalMemory,
                   .major = 9,
                   .minor = 0,
                   .multiProcessorCount = 2};
    return cudaSuccess;
  });
}
