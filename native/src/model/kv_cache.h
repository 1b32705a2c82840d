#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "model/switch_config.h"
#include "ops/kernels.h"

namespace sida {

/// Keys and values of all decoder layers in pages of 16 tokens. A page holds, for each layer, keys as
/// [heads][d_kv][16] and values as [heads][16][d_kv padded to 16], f32.
class KvCache {
 public:
  /// Bytes of a cache for `tokens` tokens, rounded up to whole pages.
  static uint64_t bytes(const SwitchConfig& config, size_t tokens);
  static size_t pages_for(size_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

  KvCache(DeviceMemory& memory, const SwitchConfig& config, size_t tokens);

  size_t pages() const { return pages_; }
  size_t free_pages() const { return free_.size(); }
  size_t d_kv_padded() const { return d_kv_padded_; }
  size_t page_floats() const { return page_floats_; }

  /// Adds pages to `pages` until it holds `tokens` tokens. Throws cannot_run, changing nothing, when too few
  /// are free.
  void grow(std::vector<uint32_t>& pages, size_t tokens);
  /// Gives back the pages that `tokens` tokens do not need.
  void shrink(std::vector<uint32_t>& pages, size_t tokens);
  void release(std::vector<uint32_t>& pages) { shrink(pages, 0); }

  float* keys(uint32_t page, size_t layer, size_t head);
  float* values(uint32_t page, size_t layer, size_t head);

  /// Writes rows (count, heads · d_kv) as the keys (values) of tokens [position, position + count).
  void write_keys(const std::vector<uint32_t>& pages, size_t layer, size_t position, const float* rows,
                  size_t count);
  void write_values(const std::vector<uint32_t>& pages, size_t layer, size_t position, const float* rows,
                    size_t count);

 private:
  size_t heads_;
  size_t d_kv_;
  size_t d_kv_padded_;
  size_t layer_floats_;
  size_t page_floats_;
  size_t pages_;
  DeviceBuffer memory_;
  std::vector<uint32_t> free_;
};

}  // namespace sida
