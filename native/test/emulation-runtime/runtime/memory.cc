#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "emulation_control.h"
#include "runtime/runtime.h"

namespace sida::emulation {
namespace {

struct Region {
  size_t bytes;
  Place place;
  size_t handle;  ///< of its pages, for memory of the device
};

constexpr size_t kPage = size_t{2} << 20, kUnit = 512;

size_t bytes_of(const char* variable, size_t bytes) {
  const char* text = std::getenv(variable);
  return text == nullptr ? bytes : std::strtoull(text, nullptr, 10);
}

/// The device's memory as the driver hands it out, in pages. Allocations of up to half a page share pages: each gets
/// the first place that is free. Larger ones have pages of their own.
class Pages {
 public:
  size_t bytes() const { return bytes_; }

  /// Takes room for `bytes`; the handle is for give_back(). Nothing where that needs more than `most` in all.
  std::optional<size_t> take(size_t bytes, size_t most) {
    if (bytes > kPage / 2) {
      return add((bytes + kPage - 1) / kPage * kPage, most) ? std::optional(size_t{0}) : std::nullopt;
    }
    const size_t units = (bytes + kUnit - 1) / kUnit;
    for (auto& [number, page] : shared_) {
      if (const auto at = page.place(units)) return number * kUnits + *at + 1;
    }
    if (!add(kPage, most)) return std::nullopt;
    shared_[++last_].place(units);
    return last_ * kUnits + 1;
  }

  void give_back(size_t handle, size_t bytes) {
    if (handle == 0) {
      bytes_ -= (bytes + kPage - 1) / kPage * kPage;
      return;
    }
    const auto page = shared_.find((handle - 1) / kUnits);
    for (size_t i = 0; i < (bytes + kUnit - 1) / kUnit; ++i) page->second.taken.reset((handle - 1) % kUnits + i);
    if (page->second.taken.any()) return;
    shared_.erase(page);
    bytes_ -= kPage;
  }

 private:
  static constexpr size_t kUnits = kPage / kUnit;
  struct Page {
    std::bitset<kUnits> taken;

    std::optional<size_t> place(size_t units) {
      for (size_t end = 0, free = 0; end < kUnits; ++end) {
        free = taken[end] ? 0 : free + 1;
        if (free < units) continue;
        for (size_t i = end + 1 - units; i <= end; ++i) taken.set(i);
        return end + 1 - units;
      }
      return std::nullopt;
    }
  };

  bool add(size_t page_bytes, size_t most) {
    if (page_bytes > most || bytes_ > most - page_bytes) return false;
    bytes_ += page_bytes;
    return true;
  }

  std::map<size_t, Page> shared_;
  size_t last_ = 0;
  size_t bytes_ = 0;
};

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, Region> regions;
  Pages pages;  ///< of the device
  size_t total = bytes_of("SIDA_EMULATION_MEMORY", kTotalMemory);
  size_t context = 0;
  size_t peak = 0;

  size_t used() const { return context + pages.bytes(); }
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
  if (device) make_context();
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  size_t handle = 0;
  if (device) {
    const auto taken = all.pages.take(bytes, all.total - std::min(all.total, all.context));
    if (!taken) return cudaErrorMemoryAllocation;
    handle = *taken;
    all.peak = std::max(all.peak, all.used());
  }
  if (posix_memalign(address, device ? 256 : 4096, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(*address, 0xff, bytes);
  all.regions[reinterpret_cast<uintptr_t>(*address)] = {bytes, place, handle};
  return cudaSuccess;
}

cudaError_t release_memory(Place place, void* address) {
  if (address == nullptr) return cudaSuccess;
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().regions.find(reinterpret_cast<uintptr_t>(address));
  if (found == memory().regions.end() || found->second.place != place) return cudaErrorInvalidValue;
  if (place == Place::kDevice) memory().pages.give_back(found->second.handle, found->second.bytes);
  memory().regions.erase(found);
  std::free(address);
  return cudaSuccess;
}

void make_context() {
  static const size_t bytes = bytes_of("SIDA_EMULATION_CONTEXT", kContextMemory);
  const std::lock_guard lock(memory().mutex);
  memory().context = bytes;
  memory().peak = std::max(memory().peak, memory().used());
}

size_t used_memory() {
  const std::lock_guard lock(memory().mutex);
  return memory().used();
}

size_t peak_memory() {
  const std::lock_guard lock(memory().mutex);
  return std::exchange(memory().peak, memory().used());
}

size_t total_memory() {
  const std::lock_guard lock(memory().mutex);
  return memory().total;
}

void set_total_memory(size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().total = bytes;
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
  if (!captured(stream)) count(Counted::kCopy);
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
    make_context();
    *total_bytes = total_memory();
    *free_bytes = *total_bytes - std::min(*total_bytes, used_memory());
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return call([&] {
    if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    return allocate(Place::kDevice, bytes, address);
  });
}

cudaError_t cudaFree(void* address) {
  if (sticky_error() == cudaSuccess) make_context();
  return free_memory(Place::kDevice, address);
}

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
    count(Counted::kCopy);
    return push_device_work(stream, [=] { std::memset(address, value, bytes); });
  });
}
