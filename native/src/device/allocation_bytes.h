#pragma once

#include <cstdint>

namespace sida {

/// Bytes of the budget that an allocation of `bytes` takes: whole 4 KiB pages.
constexpr uint64_t device_bytes(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// The CUDA driver hands out memory in pages. Allocations of up to half of one share it.
inline constexpr uint64_t kGpuPage = uint64_t{2} << 20;

/// The same on a GPU: whole pages, or the part of a page that each of several equal allocations has.
constexpr uint64_t gpu_bytes(uint64_t bytes) {
  if (bytes == 0) return 0;
  if (bytes > kGpuPage / 2) return (bytes + kGpuPage - 1) / kGpuPage * kGpuPage;
  const uint64_t in_a_page = kGpuPage / device_bytes(bytes);
  return (kGpuPage + in_a_page - 1) / in_a_page;
}

/// The driver's context on an H100 and an H200, where it cannot be measured.
inline constexpr uint64_t kUsualContextBytes = uint64_t{530} << 20;
/// A context counts in whole steps: a process may need a page more than the one before it, and must fit into the same
/// budget.
inline constexpr uint64_t kContextStep = uint64_t{32} << 20;

/// CUDA graphs of passes that a process keeps, and what the driver takes for each of a graph's launches: 4 KiB of
/// parameters at most, and as much for itself, which is an estimate.
inline constexpr uint64_t kMostGraphs = 4, kGraphLaunchBytes = 8192;
/// Launches of a layer in a graph, at most about: a layer with experts has 10, one of Gemma 4 with 8-bit
/// activations 41.
inline constexpr uint64_t kLayerLaunches = 42;

/// Set aside for each network of a predictor that runs on the GPU.
inline constexpr uint64_t kDeviceNetworkBytes = uint64_t{32} << 20;

/// What the driver takes of a GPU besides the allocations of a process whose experts, `host_bytes` in all, may lie in
/// page-locked memory: its context; the GPU's page table, 8 bytes for each 4 KiB of that memory; and eight pages, for
/// those that small allocations leave unfilled and for what the driver adds later (8 MiB on an H100); and graphs of
/// passes of `graph_layers` layers.
constexpr uint64_t gpu_driver_bytes(uint64_t context_bytes, uint64_t host_bytes, uint64_t graph_layers) {
  return (context_bytes + kContextStep - 1) / kContextStep * kContextStep + gpu_bytes(host_bytes / 512 + kGpuPage) +
         8 * kGpuPage + gpu_bytes(kMostGraphs * graph_layers * kLayerLaunches * kGraphLaunchBytes);
}

}  // namespace sida
