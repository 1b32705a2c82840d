// Copies of bytes from the host to a GPU.
#ifdef SIDA_WITH_CUDA
#include <cuda_runtime.h>

#include "device/cuda/cuda_backend.h"
#include "support/device_copy.h"
#include "support/test.h"

namespace {

/// Memory of a backend, freed at the end of the scope.
class Memory {
 public:
  Memory(Backend& backend, size_t bytes) : backend_(backend), bytes_(bytes), data_(backend.allocate(bytes)) {
    REQUIRE(data_ != nullptr);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { backend_.deallocate(data_, bytes_); }

  std::byte* data() const { return data_; }

 private:
  Backend& backend_;
  size_t bytes_;
  std::byte* data_;
};

std::vector<std::byte> read_back(const Memory& memory, size_t bytes) {
  std::vector<std::byte> host(bytes);
  require_success(cudaMemcpy(host.data(), memory.data(), bytes, cudaMemcpyDeviceToHost));
  return host;
}

TEST_CASE("cuda writer: chunks staged in its two halves in turn arrive unchanged") {
  if (!have_cuda_device()) return;
  CudaBackend device;
  constexpr size_t kChunk = 1 << 20, kChunks = 9;
  const Memory slot(device, kChunk * kChunks);
  const auto writer = device.writer();
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    std::byte* target = slot.data() + chunk * kChunk;
    writer->begin(kChunk);
    std::byte* buffer = writer->buffer_for(target, kChunk);
    std::memset(buffer, static_cast<int>(chunk + 1), kChunk);
    writer->send(target, buffer, kChunk);
  }
  writer->finish();
  const std::vector<std::byte> found = read_back(slot, kChunk * kChunks);
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto begin = found.begin() + static_cast<long>(chunk * kChunk);
    CHECK(std::all_of(begin, begin + kChunk, [&](std::byte b) { return b == std::byte(chunk + 1); }));
  }
}

TEST_CASE("cuda writer: finish() waits for what another writer has sent since") {
  if (!have_cuda_device()) return;
  size_t later_marks = 0;
  SUBCASE("and its slot was used just now") {}
  // More than have events of their own.
  SUBCASE("and its slot was used long ago") { later_marks = 1000; }
  CudaBackend device;
  // The other copy waits for milliseconds of work that reads its slot; its source is overwritten at once.
  constexpr size_t kBytes = 4096, kWork = 64 << 20;
  const auto host = device.host_memory();
  const Memory block(*host, kBytes), first(device, kBytes), slot(device, kBytes), work(device, kWork);
  std::memset(block.data(), 1, kBytes);
  const auto ends = device.writer(), other = device.writer();
  ends->send(first.data(), block.data(), kBytes);
  for (int i = 0; i < 20; ++i) device.clear(work.data(), kWork);
  device.used(slot.data(), device.mark());
  for (size_t i = 0; i < later_marks; ++i) device.mark();
  other->send(slot.data(), block.data(), kBytes);
  ends->finish();
  std::memset(block.data(), 2, kBytes);
  other->finish();
  CHECK(read_back(slot, kBytes).back() == std::byte(1));
}

TEST_CASE("cuda writer: what is sent to a poisoned slot replaces all NaNs, and no more") {
  if (!have_cuda_device()) return;
  setenv("SIDA_POISON_SLOTS", "1", 1);
  CudaBackend device;
  unsetenv("SIDA_POISON_SLOTS");
  constexpr size_t kBytes = 4096;
  const auto host = device.host_memory();
  const Memory block(*host, kBytes), slot(device, kBytes);
  std::memset(block.data(), 1, kBytes);
  const auto writer = device.writer();
  device.emptied(slot.data(), kBytes);
  writer->send(slot.data(), block.data(), kBytes / 2);
  writer->finish();
  const std::vector<std::byte> found = read_back(slot, kBytes);
  CHECK(found[kBytes / 2 - 1] == std::byte(1));
  CHECK(found[kBytes / 2] == std::byte(0xff));
  CHECK(found.back() == std::byte(0xff));
}

}  // namespace
#endif
