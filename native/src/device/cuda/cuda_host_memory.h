#pragma once

#include "device/backend.h"

namespace sida {

/// Page-locked memory of the host, from which a GPU copies without the CPU.
class CudaHostMemory final : public Backend {
 public:
  const char* name() const override { return "host"; }
  std::byte* allocate(size_t bytes, Touch touch) override;
  void deallocate(std::byte* memory, size_t bytes) override;
  void clear(std::byte* memory, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  std::unique_ptr<DeviceWriter> writer() override { return make_cpu_backend()->writer(); }
  size_t copies_in_flight() const override { return 1; }
  void filled(std::byte*) override {}
  std::unique_ptr<Backend> host_memory() override { return std::make_unique<CudaHostMemory>(); }
};

}  // namespace sida
