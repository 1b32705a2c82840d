#include "kv/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/dtype.h"
#include "core/error.h"

namespace sida {
namespace {

std::string pool_name(const KvGroup& group) {
  return group.windowed() ? "KV (window " + std::to_string(group.window) + ")" : "KV";
}

void put(float* to, float value) { *to = value; }
void put(uint16_t* to, float value) { *to = f32_to_bf16(value); }

template <class Element>
void put_row(std::byte* to, const float* from, size_t count) {
  auto* out = reinterpret_cast<Element*>(to);
  for (size_t i = 0; i < count; ++i) put(out + i, from[i]);
}

void put_row(KvFormat format, std::byte* to, const float* from, size_t count) {
  if (format == KvFormat::kBf16) return put_row<uint16_t>(to, from, count);
  std::memcpy(to, from, count * sizeof(float));
}

}  // namespace

KvCache::KvCache(DeviceMemory& memory, const KvShape& shape, const KvRoom& room)
    : backend_(memory.backend()), shape_(shape), layout_(shape, room), memory_(memory, layout_.bytes) {
  for (const KvGroup& group : layout_.groups) pools_.emplace_back(group.pages);
  // Kernels read the padding lanes of values, so these must be numbers.
  if (!backend_.allocates_zeros()) backend_.clear(memory_.data(), memory_.bytes());
}

size_t KvCache::free_pages() const {
  size_t used = 0;
  for (size_t group = 0; group < pools_.size(); ++group) used = std::max(used, pages_in_use(group));
  return pages() - used;
}

void KvCache::check_room(const KvPages& pages, size_t past, size_t tokens) const {
  if (pages_for(tokens) > layout_.pages) {
    throw Error("cannot_run", "a sequence of " + std::to_string(tokens) + " tokens exceeds the KV cache of " +
                                  std::to_string(layout_.pages) + " pages");
  }
  for (size_t group = 0; group < pools_.size(); ++group) {
    const size_t needed = pools_[group].needed(pages[group], past, tokens), free = pools_[group].free_pages();
    if (needed <= free) continue;
    const KvGroup& layers = layout_.groups[group];
    const std::string what =
        layers.windowed() ? "the KV cache of layers with a window of " + std::to_string(layers.window) + " tokens, of "
                          : std::string("the KV cache of ");
    throw Error("cannot_run",
                what + std::to_string(layers.pages) + " pages" + (layers.windowed() ? "," : "") + " has " +
                    std::to_string(free) + " free, " + std::to_string(needed) + " are needed",
                {{"pages", static_cast<double>(layers.pages)},
                 {"free_pages", static_cast<double>(free)},
                 {"needed_pages", static_cast<double>(needed)}});
  }
}

void KvCache::grow(KvPages& pages, size_t past, size_t tokens) {
  pages.resize(pools_.size());
  check_room(pages, past, tokens);
  for (size_t group = 0; group < pools_.size(); ++group) {
    pools_[group].grow(pages[group], past, tokens, [&](uint32_t to, uint32_t from) {
      backend_.copy(page_bytes(group, to), page_bytes(group, from), layout_.groups[group].page_bytes);
    });
  }
}

void KvCache::shrink(KvPages& pages, size_t tokens) {
  for (size_t group = 0; group < pages.size(); ++group) pools_[group].shrink(pages[group], tokens);
}

void KvCache::drop_unseen(KvPages& pages, size_t tokens) {
  for (size_t group = 0; group < pages.size(); ++group) {
    pools_[group].drop(pages[group], layout_.groups[group].first_page(tokens));
  }
}

KvPages KvCache::fork(const KvPages& pages, size_t tokens) {
  KvPages forked;
  for (size_t group = 0; group < pages.size(); ++group) forked.push_back(pools_[group].fork(pages[group], tokens));
  return forked;
}

std::byte* KvCache::keys(uint32_t page, size_t layer, size_t head) {
  const KvLayout::Layer& place = layout_.layers[layer];
  return page_bytes(place.group, page) + place.begin + head * shape_.head_dim * kPageTokens * element_bytes();
}

std::byte* KvCache::values(uint32_t page, size_t layer, size_t head) {
  return keys(page, layer, 0) + (layout_.key_elements + head * kPageTokens * layout_.head_dim_padded) * element_bytes();
}

size_t KvCache::page_elements(size_t layer) const {
  return layout_.groups[group_of(layer)].page_bytes / element_bytes();
}

template <class Element>
void KvCache::put_keys(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  const PageRun& run = pages[group_of(layer)];
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = run.at((position + i) / kPageTokens);
    const size_t lane = (position + i) % kPageTokens;
    for (size_t head = 0; head < shape_.heads; ++head) {
      Element* out = reinterpret_cast<Element*>(keys(page, layer, head)) + lane;
      const float* row = rows + (i * shape_.heads + head) * shape_.head_dim;
      for (size_t d = 0; d < shape_.head_dim; ++d) put(out + d * kPageTokens, row[d]);
    }
  }
}

void KvCache::write_keys(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  if (shape_.format == KvFormat::kBf16) return put_keys<uint16_t>(pages, layer, position, rows, count);
  put_keys<float>(pages, layer, position, rows, count);
}

void KvCache::write_values(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  const PageRun& run = pages[group_of(layer)];
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = run.at((position + i) / kPageTokens);
    const size_t line = (position + i) % kPageTokens * layout_.head_dim_padded * element_bytes();
    for (size_t head = 0; head < shape_.heads; ++head) {
      put_row(shape_.format, values(page, layer, head) + line, rows + (i * shape_.heads + head) * shape_.head_dim,
              shape_.head_dim);
    }
  }
}

void KvCache::write_row(const KvPages& pages, size_t layer, size_t position, size_t first, const float* row,
                        size_t columns) {
  std::byte* to = rows(pages[group_of(layer)].at(position / kPageTokens), layer);
  put_row(shape_.format, to + (position % kPageTokens * layout_.head_dim_padded + first) * element_bytes(), row,
          columns);
}

void KvCache::check_integrity(const std::vector<const KvPages*>& sequences) const {
  for (size_t group = 0; group < pools_.size(); ++group) {
    std::vector<const PageRun*> runs;
    for (const KvPages* pages : sequences) {
      if (!pages->empty()) runs.push_back(&(*pages)[group]);
    }
    pools_[group].check_integrity(runs, pool_name(layout_.groups[group]));
  }
}

void KvCache::check_held(const KvPages& pages, size_t tokens) const {
  for (size_t group = 0; group < pages.size(); ++group) {
    const size_t first = layout_.groups[group].first_page(tokens), end = pages_for(tokens);
    if (pages[group].first == first && pages[group].end() == end) continue;
    throw Error("internal", pool_name(layout_.groups[group]) + " pages " + std::to_string(pages[group].first) + " to " +
                                std::to_string(pages[group].end()) + " are held by a sequence of " +
                                std::to_string(tokens) + " tokens, which needs " + std::to_string(first) + " to " +
                                std::to_string(end) + ". This is a bug.");
  }
}

}  // namespace sida
