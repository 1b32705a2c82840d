#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/allocation_bytes.h"

namespace sida {

/// Copies bytes from the host to a device. Each thread that copies has a writer of its own.
class DeviceWriter {
 public:
  virtual ~DeviceWriter() = default;
  /// Begins a batch of writes of `bytes` bytes in all. Blocks while earlier copies still read the buffer that it
  /// reuses.
  virtual void begin(size_t bytes) = 0;
  /// The memory into which the caller reads the `bytes` bytes for `target`: `target` itself, or a staging buffer of the
  /// host. Page-aligned where `target` and all sizes are.
  virtual std::byte* buffer_for(std::byte* target, size_t bytes) = 0;
  /// Starts copying the bytes at `from`, which came from buffer_for() or from the backend's host_memory(), to `target`.
  /// They must stay unchanged until finish().
  virtual void send(std::byte* target, const std::byte* from, size_t bytes) = 0;
  /// Blocks until everything sent so far has arrived, by this writer or another: several threads may send parts of one
  /// block.
  virtual void finish() = 0;
};

/// Who touches memory for the first time, which may take a second for a GB.
enum class Touch {
  kNow,       ///< the allocation
  kByCaller,  ///< the caller, which fills all of it at once
};

/// The memory of one kind of device and how bytes get there. Implementations: device/cpu, device/cuda. All calls throw
/// device_failed when the device fails.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Bytes that an allocation of `bytes` takes.
  virtual uint64_t taken(uint64_t bytes) const { return device_bytes(bytes); }
  /// Bytes in which the device gives and takes memory; allocations of up to half of it may share them.
  virtual size_t page_bytes() const { return device_bytes(1); }
  /// Page-aligned memory; null when no memory is left.
  virtual std::byte* allocate(size_t bytes, Touch touch = Touch::kNow) = 0;
  /// Whether memory from allocate() holds zeros.
  virtual bool allocates_zeros() const { return false; }
  virtual void deallocate(std::byte* memory, size_t bytes) = 0;
  virtual void clear(std::byte* memory, size_t bytes) = 0;
  /// Copies inside the device's memory, in order with its computation.
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;

  virtual std::unique_ptr<DeviceWriter> writer() = 0;
  /// Copies from host_memory() to have in flight, each awaited, to saturate the link to the device.
  virtual size_t copies_in_flight() const = 0;
  /// Called before any of an expert's bytes is sent to its slot, of which it will fill `bytes`; from any thread.
  virtual void emptied(std::byte* /*slot*/, size_t /*bytes*/) {}
  /// Called when all of an expert's bytes have been sent to its slot; from any thread.
  virtual void filled(std::byte* slot) = 0;
  /// Host memory from which copies to this device reach full speed.
  virtual std::unique_ptr<Backend> host_memory() = 0;
};

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace sida
