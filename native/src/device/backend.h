#pragma once

#include <cstddef>
#include <memory>

namespace sida {

/// Memory of one kind of device. Implementations: device/cpu.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Page-aligned, touched memory; null when there is none.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void deallocate(std::byte* memory, size_t bytes) = 0;
};

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace sida
