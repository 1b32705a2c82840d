#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "emulation_control.h"
#include "runtime/api.h"
#include "runtime/errors.h"
#include "runtime/memory.h"
#include "runtime/streams.h"

using sida::emulation::allocate;
using sida::emulation::call;
using sida::emulation::On;
using sida::emulation::Place;
using sida::emulation::place_of;
using sida::emulation::push_device_work;
using sida::emulation::release_memory;
using sida::emulation::wait_for_all_streams;

namespace {

/// Whether `kind` fits the places. Host memory that is pinned can be the device's argument too, which nobody
/// needs here.
bool fits(cudaMemcpyKind kind, Place from, Place to) {
  const bool from_device = from == Place::kDevice;
  const bool to_device = to == Place::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

/// A copy that an injected error may befall, decided now and shown when it runs.
std::function<void()> copy_work(std::function<void()> copy) {
  const cudaError_t error = sida::emulation::injected(sida::emulation::Operation::kCopy);
  if (error == cudaSuccess) return copy;
  return [error] { sida::emulation::end_device(error, "injected into a copy"); };
}

/// Queues a copy as CUDA does: pageable memory is read before the call returns, and written before it
/// returns.
cudaError_t queue_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Place source = place_of(from, bytes);
  const Place target = place_of(to, bytes);
  if (from == nullptr || to == nullptr || !fits(kind, source, target)) return cudaErrorInvalidValue;
  if (source == Place::kPageable) {
    const auto* first = static_cast<const std::byte*>(from);
    auto staged = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
    const cudaError_t error =
        push_device_work(stream, copy_work([=] { std::memcpy(to, staged->data(), bytes); }));
    if (error != cudaSuccess || target == Place::kDevice) return error;
  } else {
    const cudaError_t error = push_device_work(stream, copy_work([=] { std::memcpy(to, from, bytes); }));
    if (error != cudaSuccess || target != Place::kPageable) return error;
  }
  return cudaStreamSynchronize(stream);
}

}  // namespace

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&] {
    if (free_bytes == nullptr || total_bytes == nullptr) return cudaErrorInvalidValue;
    *total_bytes = sida::emulation::total_memory();
    *free_bytes = *total_bytes - std::min(*total_bytes, sida::emulation::allocated_memory());
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return call([&] { return allocate(Place::kDevice, bytes, address); });
}

cudaError_t cudaFree(void* address) {
  return call(
      [&] {
        wait_for_all_streams();
        return release_memory(Place::kDevice, address);
      },
      On::kAnyDevice);
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  return call([&] { return flags > 7 ? cudaErrorInvalidValue : allocate(Place::kPinned, bytes, address); });
}

cudaError_t cudaFreeHost(void* address) {
  return call(
      [&] {
        wait_for_all_streams();
        return release_memory(Place::kPinned, address);
      },
      On::kAnyDevice);
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  return call([&] { return sida::emulation::pin(address, bytes); });
}

cudaError_t cudaHostUnregister(void* address) {
  return call(
      [&] {
        wait_for_all_streams();
        return sida::emulation::unpin(address);
      },
      On::kAnyDevice);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&] {
    if (const cudaError_t error = queue_copy(to, from, bytes, kind, nullptr); error != cudaSuccess)
      return error;
    const bool on_device = place_of(to, bytes) == Place::kDevice && place_of(from, bytes) == Place::kDevice;
    return on_device ? cudaSuccess : cudaStreamSynchronize(nullptr);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
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
