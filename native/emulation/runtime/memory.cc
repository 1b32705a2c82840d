#include "runtime/memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulation_control.h"

namespace sida::emulation {
namespace {

struct Region {
  size_t bytes;
  Place place;
};

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, Region> regions;
  size_t allocated = 0;  ///< of the device
};

Memory& memory() {
  static auto& all = *new Memory();
  return all;
}

}  // namespace

Place place_of(const void* address, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(memory().mutex);
  auto after = memory().regions.upper_bound(first);
  if (after == memory().regions.begin()) return Place::kPageable;
  const auto& [begin, region] = *--after;
  return first + bytes <= begin + region.bytes ? region.place : Place::kPageable;
}

cudaError_t allocate(Place place, size_t bytes, void** address) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const bool device = place == Place::kDevice;
  const std::lock_guard lock(memory().mutex);
  if (device && bytes > kTotalMemory - memory().allocated) return cudaErrorMemoryAllocation;
  if (posix_memalign(address, device ? 256 : 4096, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*address, 0xff, bytes);
  memory().regions[reinterpret_cast<uintptr_t>(*address)] = {bytes, place};
  if (device) memory().allocated += bytes;
  return cudaSuccess;
}

cudaError_t release_memory(Place place, void* address) {
  if (address == nullptr) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().regions.find(reinterpret_cast<uintptr_t>(address));
  if (found == memory().regions.end() || found->second.place != place) return cudaErrorInvalidValue;
  if (place == Place::kDevice) memory().allocated -= found->second.bytes;
  memory().regions.erase(found);
  std::free(address);
  return cudaSuccess;
}

size_t allocated_memory() {
  const std::lock_guard lock(memory().mutex);
  return memory().allocated;
}

}  // namespace sida::emulation
