#include <sys/mman.h>

#include <cstring>

#include "device/backend.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace sida {
namespace {

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }

  std::byte* allocate(size_t bytes) override {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE);
    // The first touch of fresh memory is slow: pay for it here, not while a pass runs.
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  void deallocate(std::byte* memory, size_t bytes) override { munmap(memory, bytes); }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace sida
