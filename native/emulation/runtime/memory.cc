#include "runtime/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulation_control.h"

namespace sida::emulation {
namespace {

constexpr size_t kDefaultTotal = size_t{4} << 30;

struct Region {
  size_t bytes;
  Place place;
  bool registered;  ///< the caller's own, only pinned
};

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, Region> regions;
  size_t total = kDefaultTotal;
  size_t allocated = 0;  ///< of the device
};

Memory& memory() {
  static auto& all = *new Memory();
  return all;
}

/// The region that begins at `address`, with the place; the end if there is none.
std::map<uintptr_t, Region>::iterator find(const void* address, Place place, bool registered) {
  const auto found = memory().regions.find(reinterpret_cast<uintptr_t>(address));
  if (found == memory().regions.end()) return found;
  const bool right = found->second.place == place && found->second.registered == registered;
  return right ? found : memory().regions.end();
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
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  if (place == Place::kDevice && bytes > memory().total - std::min(memory().total, memory().allocated)) {
    return cudaErrorMemoryAllocation;
  }
  if (posix_memalign(address, place == Place::kDevice ? 256 : 4096, bytes) != 0)
    return cudaErrorMemoryAllocation;
  std::memset(*address, 0xff, bytes);
  memory().regions[reinterpret_cast<uintptr_t>(*address)] = {bytes, place, false};
  if (place == Place::kDevice) memory().allocated += bytes;
  return cudaSuccess;
}

cudaError_t release_memory(Place place, void* address) {
  if (address == nullptr) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  const auto found = find(address, place, false);
  if (found == memory().regions.end()) return cudaErrorInvalidValue;
  if (place == Place::kDevice) memory().allocated -= found->second.bytes;
  memory().regions.erase(found);
  std::free(address);
  return cudaSuccess;
}

cudaError_t pin(void* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
  const auto first = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(memory().mutex);
  const auto next = memory().regions.lower_bound(first);
  if (next != memory().regions.end() && next->first < first + bytes)
    return cudaErrorHostMemoryAlreadyRegistered;
  if (next != memory().regions.begin()) {
    const auto last = std::prev(next);
    if (last->first + last->second.bytes > first) return cudaErrorHostMemoryAlreadyRegistered;
  }
  memory().regions[first] = {bytes, Place::kPinned, true};
  return cudaSuccess;
}

cudaError_t unpin(void* address) {
  const std::lock_guard lock(memory().mutex);
  const auto found = find(address, Place::kPinned, true);
  if (found == memory().regions.end()) return cudaErrorHostMemoryNotRegistered;
  memory().regions.erase(found);
  return cudaSuccess;
}

size_t total_memory() {
  const std::lock_guard lock(memory().mutex);
  return memory().total;
}

void set_total_memory(size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().total = bytes;
}

size_t allocated_memory() {
  const std::lock_guard lock(memory().mutex);
  return memory().allocated;
}

}  // namespace sida::emulation
