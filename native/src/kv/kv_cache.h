#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"
#include "kv/kv_layout.h"
#include "kv/page_pool.h"

namespace sida {

/// Keys and values of all cached layers in pages of 16 tokens, as KvLayout describes them. Layers with a window have
/// pages of their own, which a sequence gives up as its window passes them.
class KvCache {
 public:
  static uint64_t bytes(const KvShape& shape, const KvRoom& room) { return KvLayout(shape, room).bytes; }

  KvCache(DeviceMemory& memory, const KvShape& shape, const KvRoom& room);

  const KvShape& shape() const { return shape_; }
  const std::vector<KvGroup>& groups() const { return layout_.groups; }
  size_t group_of(size_t layer) const { return layout_.layers[layer].group; }
  /// Pages of the tokens that all sequences together may have.
  size_t pages() const { return layout_.pages; }
  /// Of them, pages that are free in every group of keys.
  size_t free_pages() const;
  size_t pages_in_use(size_t group) const { return pools_[group].pages() - pools_[group].free_pages(); }
  const KvLayout::Layer& layer(size_t layer) const { return layout_.layers[layer]; }

  /// Prepares `pages`, which hold `past` tokens, for tokens [past, tokens): adds pages, and replaces the last ones by
  /// copies where other sequences own them too. Throws cannot_run and changes nothing when too few pages are free.
  void grow(KvPages& pages, size_t past, size_t tokens);
  /// Gives up the pages that the first `tokens` tokens do not need.
  void shrink(KvPages& pages, size_t tokens);
  /// Gives up the pages that no token from `tokens` on sees.
  void drop_unseen(KvPages& pages, size_t tokens);
  void release(KvPages& pages) { shrink(pages, 0); }
  /// Gives up the recurrent state: the pages are only there to be shared then.
  void drop_state(KvPages& pages);
  /// Pages of the first `tokens` tokens with one more owner each. A recurrent state is behind all tokens.
  KvPages fork(const KvPages& pages, size_t tokens);

  std::byte* keys(uint32_t page, size_t layer, size_t head);
  std::byte* values(uint32_t page, size_t layer, size_t head);
  /// From page to page of the layer's group. Not of q8_0.
  size_t page_elements(size_t layer) const;
  /// The state of a layer that is recurrent, as DeltaSpec says. Of a sequence's first pass it holds anything.
  float* state(uint32_t page, size_t layer) { return reinterpret_cast<float*>(place_of(page, layer)); }
  /// From a sequence's state to the next in bytes.
  size_t state_bytes(size_t layer) const { return layout_.groups[group_of(layer)].page_bytes; }
  bool recurrent() const;
  /// Of latent attention.
  std::byte* rows(uint32_t page, size_t layer) { return keys(page, layer, 0); }

  /// cpu: writes rows (count, heads · head_dim) as the keys (values) of tokens [position, position + count).
  void write_keys(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count);
  void write_values(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count);
  /// cpu: writes `row` (columns) as columns [first, first + columns) of a token's latent row.
  void write_row(const KvPages& pages, size_t layer, size_t position, size_t first, const float* row, size_t columns);

  /// Throws internal unless each page is either free or has as many owners as `sequences` name it.
  void check_integrity(const std::vector<const KvPages*>& sequences) const;
  /// Throws internal unless `pages` are those that a sequence of `tokens` tokens needs, its recurrent state among them
  /// if it has one.
  void check_held(const KvPages& pages, size_t tokens, bool has_state = true) const;

 private:
  std::byte* page_bytes(size_t group, uint32_t page) {
    return memory_.data() + layout_.groups[group].begin + page * layout_.groups[group].page_bytes;
  }
  std::byte* place_of(uint32_t page, size_t layer) {
    return page_bytes(group_of(layer), page) + layout_.layers[layer].begin;
  }
  /// The tokens up to which grow() takes pages of a group.
  size_t grown(size_t group, size_t past, size_t tokens) const;
  void check_room(const KvPages& pages, size_t past, size_t tokens) const;

  Backend& backend_;
  KvShape shape_;
  KvLayout layout_;
  DeviceBuffer memory_;
  std::vector<PagePool> pools_;  ///< by group
};

}  // namespace sida
