// What allocations take of a device's budget.
#include "device/device_memory.h"

#include "engine/devices.h"
#include "support/devices.h"

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPage = 2 * kMiB;

TEST_CASE("device memory: an allocation takes whole pages, of 2 MiB on a GPU") {
  static_assert(device_bytes(1) == 4096 && device_bytes(4096) == 4096 && device_bytes(3 * kMiB + 1) == 3 * kMiB + 4096);
  static_assert(gpu_bytes(1) == 4096 && gpu_bytes(kMiB) == kMiB && gpu_bytes(700 << 10) == kMiB);
  // Three of these share a page, so each counts as a third of it, however many bytes are allocated for it.
  static_assert(3 * gpu_bytes(kPage / 3) >= kPage && 3 * device_bytes(540672) <= kPage);
  static_assert(gpu_bytes(540672) > device_bytes(540672));
  static_assert(gpu_bytes(200 << 10) * 10 >= kPage && gpu_bytes(200 << 10) * 10 < kPage + 10);
  static_assert(gpu_driver_bytes(530 * kMiB, 0, 0) == (544 + 2 + 16) * kMiB);
  static_assert(gpu_driver_bytes(513 * kMiB, uint64_t{10} << 30, 48) == (544 + 22 + 16 + 64) * kMiB);
  static_assert(gpu_bytes(kMiB + 1) == 2 * kMiB && gpu_bytes(2 * kMiB) == 2 * kMiB &&
                gpu_bytes(2 * kMiB + 1) == 4 * kMiB);
  for (const DeviceKind kind : devices()) {
    CASE(device_name(kind));
    const auto backend = make_backend(kind);
    DeviceMemory memory(*backend, 7 * kMiB);
    // As large as an expert of Qwen3-30B-A3B in int4.
    constexpr uint64_t kExpert = 2654208;
    const uint64_t each = kind == DeviceKind::kCuda ? 4 * kMiB : kExpert;
    {
      const DeviceBuffer one(memory, kExpert);
      CHECK(memory.used() == each);
      CHECK(one.bytes() == kExpert);
      if (kind == DeviceKind::kCuda) CHECK_THROWS(DeviceBuffer(memory, kExpert));
    }
    CHECK(memory.used() == 0);
    CHECK(memory.peak() == each);
    DeviceMemory behind_driver(*backend, 7 * kMiB, 6 * kMiB);
    CHECK(behind_driver.used() == 6 * kMiB);
    CHECK_THROWS(DeviceBuffer(behind_driver, kExpert));
  }
}

}  // namespace
