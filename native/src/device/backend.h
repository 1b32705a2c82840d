#pragma once

#include <cstddef>
#include <memory>

namespace sida {

/// Brings bytes from the host to a device; one for each thread that does.
class DeviceWriter {
 public:
  virtual ~DeviceWriter() = default;
  /// Makes room for `bytes` bytes in all; blocks while what was sent from there is still on its way.
  virtual void begin(size_t bytes) = 0;
  /// Where the `bytes` bytes that are to stand at `target` are read to: `target` itself, or host memory on
  /// the way to it. Page-aligned where `target` and all sizes are.
  virtual std::byte* room(std::byte* target, size_t bytes) = 0;
  /// Sends bytes on their way to `target`, from room() or from host_memory() of the backend, where they must
  /// stay until finish().
  virtual void send(std::byte* target, const std::byte* from, size_t bytes) = 0;
  /// Returns when all that was sent by now, by this writer or another, has arrived: what one block sends may
  /// come from several threads.
  virtual void finish() = 0;
};

/// Memory of one kind of device and the way into it. Implementations: device/cpu, device/cuda. All throw
/// device_failed when the device does.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Page-aligned, touched memory; null when there is none.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void deallocate(std::byte* memory, size_t bytes) = 0;
  virtual void clear(std::byte* memory, size_t bytes) = 0;
  /// Copies inside the device's memory, in the order of what is computed.
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;

  virtual std::unique_ptr<DeviceWriter> writer() = 0;
  /// Copies from host_memory() that keep the way to the device busy when each waits for its end.
  virtual size_t copies_in_flight() const = 0;
  /// Told when all of an expert's bytes have been sent to its slot; from any thread.
  virtual void filled(std::byte* slot) = 0;
  /// Memory of the host from which bytes go to this device at full speed.
  virtual std::unique_ptr<Backend> host_memory() = 0;
};

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace sida
