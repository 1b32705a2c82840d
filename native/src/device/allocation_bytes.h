#pragma once

#include <cstdint>

namespace sida {

/// Bytes of the budget that an allocation of `bytes` takes: whole 4 KiB pages.
constexpr uint64_t device_bytes(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// The same on a GPU. The CUDA driver hands out memory in pages of 2 MiB. Allocations of up to 1 MiB share one, those
/// above an eighth of it with what it has left over.
constexpr uint64_t gpu_bytes(uint64_t bytes) {
  constexpr uint64_t kPage = uint64_t{2} << 20;
  if (bytes <= kPage / 8) return device_bytes(bytes);
  return bytes <= kPage / 2 ? device_bytes(kPage / (kPage / bytes)) : (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace sida
