#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/allocation_bytes.h"
#include "device/backend.h"

namespace sida {

class DeviceMemory;

/// One allocation. Its destructor frees it and returns its bytes to the budget.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceMemory& memory, size_t bytes, Touch touch = Touch::kNow);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  /// Whole 4 KiB pages.
  size_t bytes() const { return bytes_; }

 private:
  DeviceMemory* memory_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t taken_ = 0;
};

/// The hard budget of a device. Every byte the device holds is reserved here before it is allocated.
class DeviceMemory {
 public:
  /// `held`: bytes of the budget that are taken for as long as it lives, by the driver of a GPU.
  DeviceMemory(Backend& backend, uint64_t budget, uint64_t held = 0)
      : backend_(backend), budget_(budget), used_(held), peak_(held) {}

  Backend& backend() { return backend_; }
  /// Bytes of the budget that an allocation of `bytes` takes.
  uint64_t taken(uint64_t bytes) const { return backend_.taken(bytes); }
  uint64_t budget() const { return budget_; }
  uint64_t used() const { return used_; }
  uint64_t peak() const { return peak_; }
  /// Throws internal when more than `budget` is in use.
  void set_budget(uint64_t budget);

 private:
  friend class DeviceBuffer;
  /// Allocates `bytes`, which take `taken` bytes of the budget. Throws budget_too_small when it would be exceeded,
  /// out_of_memory when the device has no more.
  std::byte* allocate(size_t bytes, uint64_t taken, Touch touch);
  void release(std::byte* data, size_t bytes, uint64_t taken);

  Backend& backend_;
  std::atomic<uint64_t> budget_;
  std::atomic<uint64_t> used_;
  std::atomic<uint64_t> peak_;
};

}  // namespace sida
