#include <cstring>
#include <memory>
#include <vector>

#include "emulation_control.h"
#include "runtime/api.h"
#include "runtime/errors.h"
#include "runtime/memory.h"
#include "runtime/streams.h"

using namespace sida::emulation;

namespace {

/// Queues a copy as CUDA does: pageable memory is read before the call returns, and written before it returns.
cudaError_t queue_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Place source = place_of(from, bytes), target = place_of(to, bytes);
  const bool fits = (source == Place::kDevice) == (kind != cudaMemcpyHostToDevice) &&
                    (target == Place::kDevice) == (kind != cudaMemcpyDeviceToHost);
  if (from == nullptr || to == nullptr || !fits) return cudaErrorInvalidValue;
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
  return call([&] { return allocate(Place::kDevice, bytes, address); });
}

cudaError_t cudaFree(void* address) { return free_memory(Place::kDevice, address); }

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return call([&] { return allocate(Place::kPinned, bytes, address); });
}

cudaError_t cudaFreeHost(void* address) { return free_memory(Place::kPinned, address); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&] {
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
