#include <sys/mman.h>

#include <cstring>

#include "device/backend.h"
#include "device/poison.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace sida {
namespace {

/// Callers read straight into the device's memory; only bytes from elsewhere are copied.
class CpuWriter final : public DeviceWriter {
 public:
  void begin(size_t) override {}
  std::byte* buffer_for(std::byte* target, size_t) override { return target; }
  void send(std::byte* target, const std::byte* from, size_t bytes) override {
    if (from != target) std::memcpy(target, from, bytes);
  }
  void finish() override {}
};

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }

  std::byte* allocate(size_t bytes, Touch touch) override {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);
    if (touch == Touch::kByCaller) return static_cast<std::byte*>(memory);
    // The first touch of fresh memory is slow. Touch it here, not while a pass runs.
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  void deallocate(std::byte* memory, size_t bytes) override { munmap(memory, bytes); }
  bool allocates_zeros() const override { return true; }
  void clear(std::byte* memory, size_t bytes) override { std::memset(memory, 0, bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  std::unique_ptr<DeviceWriter> writer() override { return std::make_unique<CpuWriter>(); }
  size_t copies_in_flight() const override { return 1; }
  void emptied(std::byte* slot, size_t bytes) override {
    if (poisons_) std::memset(slot, kPoison, bytes);
  }
  void filled(std::byte*) override {}
  std::unique_ptr<Backend> host_memory() override { return make_cpu_backend(); }

 private:
  const bool poisons_ = poisons_slots();
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace sida
