#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "model/spec.h"
#include "ops/kv_page.h"

namespace sida {

/// Sizes of a cache: the attention layers of the model's last stack, of kv_heads heads each.
struct KvShape {
  size_t layers = 0;
  size_t heads = 0;
  size_t head_dim = 0;
  bool latent = false;  ///< one row of `head_dim` floats a token, not keys and values of heads

  static KvShape of(const ModelSpec& spec);
};

/// The pages of one sequence, in order. Several sequences may own a page; a sequence copies a shared page before it
/// writes into it.
using KvPages = std::vector<uint32_t>;

/// Keys and values of all cached layers in pages of 16 tokens. A page holds, for each layer, keys as
/// [heads][head_dim][16] and values as [heads][16][head_dim padded to 16], f32; of latent attention it holds rows as
/// [16][head_dim padded to 16]. Each page counts its owners.
class KvCache {
 public:
  /// Bytes of a cache for `tokens` tokens, rounded up to whole pages.
  static uint64_t bytes(const KvShape& shape, size_t tokens);
  static size_t pages_for(size_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

  KvCache(DeviceMemory& memory, const KvShape& shape, size_t tokens);

  const KvShape& shape() const { return shape_; }
  size_t pages() const { return owners_.size(); }
  size_t free_pages() const { return free_.size(); }
  size_t head_dim_padded() const { return head_dim_padded_; }
  size_t page_floats() const { return page_floats_; }

  /// Prepares `pages`, which hold `past` tokens, for tokens [past, tokens): adds pages, and replaces the last one by a
  /// copy where other sequences own it too. Throws cannot_run and changes nothing when too few pages are free.
  void grow(KvPages& pages, size_t past, size_t tokens);
  /// Gives up the pages that `tokens` tokens do not need.
  void shrink(KvPages& pages, size_t tokens);
  void release(KvPages& pages) { shrink(pages, 0); }
  /// Pages of the first `tokens` tokens with one more owner each.
  KvPages fork(const KvPages& pages, size_t tokens);

  float* keys(uint32_t page, size_t layer, size_t head);
  float* values(uint32_t page, size_t layer, size_t head);

  /// Of latent attention.
  float* rows(uint32_t page, size_t layer) { return keys(page, layer, 0); }

  /// cpu: writes rows (count, heads · head_dim) as the keys (values) of tokens [position, position + count).
  void write_keys(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count);
  void write_values(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count);

  /// Throws internal unless each page is either free or has as many owners as `sequences` name it.
  void check_integrity(const std::vector<const KvPages*>& sequences) const;

 private:
  uint32_t take();
  void give_back(uint32_t page);
  std::byte* page_bytes(uint32_t page) { return reinterpret_cast<std::byte*>(memory_.floats() + page * page_floats_); }

  Backend& backend_;
  KvShape shape_;
  size_t head_dim_padded_;
  size_t layer_floats_;
  size_t page_floats_;
  DeviceBuffer memory_;
  std::vector<uint32_t> owners_;  ///< (pages)
  std::vector<uint32_t> free_;
};

}  // namespace sida
