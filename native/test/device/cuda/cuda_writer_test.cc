// Copies of bytes from the host to a GPU.
#ifdef SIDA_WITH_CUDA
#include "device/cuda/cuda_backend.h"
#include "device/device_memory.h"
#include "support/device_copy.h"

namespace {

TEST_SUITE_BEGIN("cuda" * needs_cuda_device());

std::vector<std::byte> read_back(const DeviceBuffer& memory) {
  std::vector<std::byte> host(memory.bytes());
  require_success(cudaMemcpy(host.data(), memory.data(), host.size(), cudaMemcpyDeviceToHost));
  return host;
}

TEST_CASE("cuda writer: chunks staged in its two halves in turn arrive unchanged") {
  CudaBackend device;
  DeviceMemory memory(device, 64 << 20);
  constexpr size_t kChunk = 1 << 20, kChunks = 9;
  const DeviceBuffer slot(memory, kChunk * kChunks);
  const auto writer = device.writer();
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    std::byte* target = slot.data() + chunk * kChunk;
    writer->begin(kChunk);
    std::byte* buffer = writer->buffer_for(target, kChunk);
    std::memset(buffer, static_cast<int>(chunk + 1), kChunk);
    writer->send(target, buffer, kChunk);
  }
  writer->finish();
  const std::vector<std::byte> found = read_back(slot);
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    CHECK(part_of(found, chunk * kChunk, kChunk) == std::vector<std::byte>(kChunk, std::byte(chunk + 1)));
  }
}

TEST_CASE("cuda writer: finish() waits for what another writer has sent since") {
  size_t later_marks = 0;
  SUBCASE("and its slot was used just now") {}
  // More than have events of their own.
  SUBCASE("and its slot was used long ago") { later_marks = 1000; }
  CudaBackend device;
  // The other copy waits for milliseconds of work that reads its slot; its source is overwritten at once.
  constexpr size_t kBytes = 4096, kWork = 64 << 20;
  const auto host = device.host_memory();
  DeviceMemory host_memory(*host, kBytes), memory(device, 2 * kWork);
  const DeviceBuffer block(host_memory, kBytes), first(memory, kBytes), slot(memory, kBytes), work(memory, kWork);
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
  CHECK(read_back(slot).back() == std::byte(1));
}

TEST_CASE("cuda writer: what is sent to a poisoned slot replaces all NaNs, and no more") {
  setenv("SIDA_POISON_SLOTS", "1", 1);
  CudaBackend device;
  unsetenv("SIDA_POISON_SLOTS");
  constexpr size_t kBytes = 4096;
  const auto host = device.host_memory();
  DeviceMemory host_memory(*host, kBytes), memory(device, 4 << 20);
  const DeviceBuffer block(host_memory, kBytes), slot(memory, kBytes);
  std::memset(block.data(), 1, kBytes);
  const auto writer = device.writer();
  device.emptied(slot.data(), kBytes);
  writer->send(slot.data(), block.data(), kBytes / 2);
  writer->finish();
  const std::vector<std::byte> found = read_back(slot);
  CHECK(found[kBytes / 2 - 1] == std::byte(1));
  CHECK(found[kBytes / 2] == std::byte(0xff));
  CHECK(found.back() == std::byte(0xff));
}

TEST_SUITE_END();

}  // namespace
#endif
