#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulation_control.h"
#include "runtime/runtime.h"

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

using namespace sida::emulation;

namespace {

/// Queues a copy as CUDA does: pageable memory is read before the call returns, and written before it returns.
cudaError_t queue_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Place source = place_of(from, bytes), target = place_of(to, bytes);
  const bool fits = (source == Place::kDevice) == (kind != cudaMemcpyHostToDevice) &&
                    (target == Place::kDevice) == (kind != cudaMemcpyDeviceToHost);
  if (from == nullptr || to == nullptr || !fits) return cudaErrorInvalidValue;
  if (captured(stream) && (source == Place::kPageable || target == Place::kPageable)) return refuse_in_capture();
  if (source == Place::kPageable) {
    const auto* first = static_cast<const std::byte*>(from);
    auto staged = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
    return push_device_work(stream, [=] { std::memcpy(to, staged->data(), bytes); });
  }
  const cudaError_t error = push_device_work(stream, [=] { std::memcpy(to, from, bytes); });
  return error != cudaSuccess || target != Place::kPageable ? error : cudaStreamSynchronize(stream);
}

cudaError_t free_memory(Place place, void* address) {
  return call(
      [&] {
        if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
        wait_for_all_streams();
        return release_memory(place, address);
      },
      On::kAnyDevice);
}

}  // namespace

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&] {
    *total_bytes = kTotalMemory;
    *free_bytes = kTotalMemory - allocated_memory();
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return call([&] {
    if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    return allocate(Place::kDevice, bytes, address);
  });
}

cudaError_t cudaFree(void* address) { return free_memory(Place::kDevice, address); }

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return call([&] {
    if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    return allocate(Place::kPinned, bytes, address);
  });
}

cudaError_t cudaFreeHost(void* address) { return free_memory(Place::kPinned, address); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&] {
    if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
    const cudaError_t error = queue_copy(to, from, bytes, kind, nullptr);
    return error != cudaSuccess || kind == cudaMemcpyDeviceToDevice ? error : cudaStreamSynchronize(nullptr);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] { return queue_copy(to, from, bytes, kind, stream); });
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return cudaMemsetAsync(address, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return call([&] {
    if (bytes == 0) return cudaSuccess;
    if (place_of(address, bytes) != Place::kDevice) return cudaErrorInvalidValue;
    return push_device_work(stream, [=] { std::memset(address, value, bytes); });
  });
}
