#pragma once

#include "device/device_memory.h"
#include "model/kv_cache.h"
#include "model/relative_position.h"
#include "ops/cuda/attention.h"
#include "support/device_copy.h"
#include "support/kernel_sets.h"
#include "support/test.h"

namespace sida::testing {

/// What attention works on, for both devices: some sequences' keys and values in one layer of a cache, NaN
/// wherever nobody wrote, and a table of biases.
struct PagedCase {
  struct Sequence {
    size_t count, past, keys;  ///< as in cuda::PagedSequence; `keys` of a cross-attention: of the context
    KvPages pages;

    const std::vector<uint32_t>& ids() const { return pages[0].ids; }
  };
  static constexpr size_t kLayer = 1;

  size_t heads;  ///< of queries
  KvShape shape;
  float scale = 1;
  std::unique_ptr<Backend> backend = make_cpu_backend();
  DeviceMemory memory{*backend, uint64_t{1} << 30};
  std::vector<Sequence> sequences;
  size_t tokens = 0, positions = 16;
  std::unique_ptr<KvCache> cache;
  std::vector<float> bias_memory;
  std::unique_ptr<PositionBias> bias;

  /// `kv_heads` 0: as many as query heads.
  PagedCase(size_t query_heads, size_t head_dim, std::vector<Sequence> with, size_t kv_heads = 0,
            KvFormat format = KvFormat::kF32)
      : heads(query_heads),
        shape{3, kv_heads == 0 ? query_heads : kv_heads, head_dim, false, format},
        sequences(std::move(with)) {
    size_t cached = 0;
    for (const Sequence& s : sequences) {
      tokens += s.count;
      positions = std::max({positions, s.past + s.count, s.keys});
      cached += pages_for(held(s)) * kPageTokens;
    }
    cache = std::make_unique<KvCache>(memory, shape, cached);
    std::fill_n(first_float(), cache_floats(), std::bit_cast<float>(0x7fc07fc0U));  // NaN in bf16 too
    // A page each in turn, so that no sequence's pages lie together.
    for (size_t grown = kPageTokens; grown < positions + kPageTokens; grown += kPageTokens) {
      for (Sequence& s : sequences) {
        const size_t past = s.pages.empty() ? 0 : s.ids().size() * kPageTokens;
        cache->grow(s.pages, past, std::min(grown, held(s)));
      }
    }
    bias_memory.resize(PositionBias::floats(heads, positions));
    const auto weight = random_floats(32 * heads, 20);
    bias = std::make_unique<PositionBias>(RelativeBias{}, heads, weight.data(), true, positions, bias_memory.data());
  }

  static size_t held(const Sequence& s) { return std::max(s.past + s.count, s.keys); }
  size_t width() const { return heads * shape.head_dim; }
  size_t kv_width() const { return shape.heads * shape.head_dim; }
  float* first_float() const { return reinterpret_cast<float*>(cache->keys(0, 0, 0)); }
  size_t cache_floats() const { return KvCache::bytes(shape, cache->pages() * kPageTokens) / sizeof(float); }
  std::vector<float> cache_copy() const { return {first_float(), first_float() + cache_floats()}; }

  /// Keys and values of all that sequences hold.
  void fill(unsigned seed) {
    for (Sequence& s : sequences) {
      const auto keys = random_floats(held(s) * kv_width(), seed++),
                 values = random_floats(held(s) * kv_width(), seed++);
      cache->write_keys(s.pages, kLayer, 0, keys.data(), held(s));
      cache->write_values(s.pages, kLayer, 0, values.data(), held(s));
    }
  }

  void cpu_attention(std::vector<float>& q, bool biased, bool causal) const {
    const size_t stride = (positions + 15) / 16 * 16;
    std::vector<float> scratch(4 * stride);
    float* rows = q.data();
    for (const Sequence& s : sequences) {
      for (size_t head = 0; head < heads; ++head) {
        const size_t kv_head = head / (heads / shape.heads);
        std::vector<const std::byte*> keys, values;
        for (const uint32_t page : s.ids()) keys.push_back(cache->keys(page, kLayer, kv_head));
        for (const uint32_t page : s.ids()) values.push_back(cache->values(page, kLayer, kv_head));
        AttentionTask task{};
        task.q = task.out = rows + head * shape.head_dim;
        task.q_stride = task.out_stride = width();
        task.rows = s.count;
        task.head_dim = shape.head_dim;
        task.head_dim_padded = cache->head_dim_padded();
        task.scale = scale;
        task.key_pages = keys.data();
        task.value_pages = values.data();
        task.key_count = causal ? s.past + 1 : s.keys;
        task.causal_step = causal ? 1 : 0;
        task.bias = biased ? bias->head(head) - s.past : nullptr;
        task.scratch = scratch.data();
        task.score_stride = stride;
        task.format = shape.format;
        cpu_kernels_named("scalar")->attention(task);
      }
      rows += s.count * width();
    }
  }
};

/// A case on the device, its rows as they are or divided into other sequences: [begin, begin + count) of one
/// of them.
struct DeviceBatch {
  struct Part {
    size_t sequence, begin, count;
  };

  DeviceCopy<float> memory, biases;
  std::vector<cuda::PagedSequence> sequence_list;
  std::vector<cuda::RowTile> tile_list;
  std::unique_ptr<DeviceCopy<cuda::PagedSequence>> sequences;
  std::unique_ptr<DeviceCopy<cuda::RowTile>> tiles;
  std::unique_ptr<DeviceCopy<uint32_t>> page_table;
  cuda::CacheLayer cache;
  uint32_t heads;
  float scale;
  cuda::AttentionBias bias;

  static std::vector<Part> whole(const PagedCase& c) {
    std::vector<Part> parts;
    for (size_t i = 0; i < c.sequences.size(); ++i) parts.push_back({i, 0, c.sequences[i].count});
    return parts;
  }

  explicit DeviceBatch(const PagedCase& c) : DeviceBatch(c, whole(c)) {}

  DeviceBatch(const PagedCase& c, const std::vector<Part>& parts)
      : memory(std::span<const float>(c.first_float(), c.cache_floats())), biases(c.bias_memory) {
    std::vector<uint32_t> begins, first_page, table;
    uint32_t begin = 0;
    for (const PagedCase::Sequence& s : c.sequences) {
      begins.push_back(begin);
      begin += static_cast<uint32_t>(s.count);
      first_page.push_back(static_cast<uint32_t>(table.size()));
      table.insert(table.end(), s.ids().begin(), s.ids().end());
    }
    for (const Part& part : parts) {
      const PagedCase::Sequence& s = c.sequences[part.sequence];
      for (uint32_t row = 0; row < part.count; row += cuda::kTileRows) {
        tile_list.push_back({static_cast<uint32_t>(sequence_list.size()), row});
      }
      sequence_list.push_back({static_cast<uint32_t>(begins[part.sequence] + part.begin),
                               static_cast<uint32_t>(part.count), static_cast<uint32_t>(s.past + part.begin),
                               static_cast<uint32_t>(s.keys), first_page[part.sequence]});
    }
    sequences = std::make_unique<DeviceCopy<cuda::PagedSequence>>(sequence_list);
    tiles = std::make_unique<DeviceCopy<cuda::RowTile>>(tile_list);
    page_table = std::make_unique<DeviceCopy<uint32_t>>(table);
    cache = {
        reinterpret_cast<std::byte*>(memory.data()) + (c.cache->keys(0, PagedCase::kLayer, 0) - c.cache->keys(0, 0, 0)),
        c.cache->page_elements(PagedCase::kLayer),
        c.cache->key_elements(),
        static_cast<uint32_t>(c.shape.heads),
        static_cast<uint32_t>(c.shape.head_dim),
        static_cast<uint32_t>(c.cache->head_dim_padded()),
        c.shape.format};
    heads = static_cast<uint32_t>(c.heads);
    scale = c.scale;
    bias = {biases.data() + (c.bias->head(0) - c.bias_memory.data()),
            static_cast<size_t>(c.bias->head(1) - c.bias->head(0))};
  }

  cuda::PagedBatch view() const { return {sequences->data(), tiles->data(), tile_list.size(), page_table->data()}; }

  std::vector<float> attention(const std::vector<float>& q, bool biased, bool causal) const {
    const DeviceCopy<float> rows(q);
    cuda::attention(cache, view(), rows.data(), {heads, scale, biased ? bias : cuda::AttentionBias{nullptr, 0}, causal},
                    nullptr);
    return rows.read();
  }
};

}  // namespace sida::testing
