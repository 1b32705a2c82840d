#include "kv/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/dtype.h"
#include "core/error.h"

namespace sida {
namespace {

std::string pool_name(const KvGroup& group) {
  if (group.recurrent) return "recurrent state";
  return group.windowed() ? "KV (window " + std::to_string(group.window) + ")" : "KV";
}

/// Rounds a block to codes, `step` bytes apart. Returns the scale, as bf16. A block with a number that is not finite
/// becomes NaN.
uint16_t put_block(std::byte* to, size_t step, const float* from) {
  float most = 0;
  bool finite = true;
  for (size_t i = 0; i < kKvBlock; ++i) {
    finite = finite && std::isfinite(from[i]);
    most = std::max(most, std::fabs(from[i]));
  }
  const uint16_t scale = f32_to_bf16(finite ? most / 127 : std::numeric_limits<float>::quiet_NaN());
  const float divisor = bf16_to_f32(scale);
  for (size_t i = 0; i < kKvBlock; ++i) {
    // A scale that was rounded down leaves codes above 127.
    const float code = divisor > 0 ? std::clamp(std::nearbyint(from[i] / divisor), -127.0f, 127.0f) : 0;
    to[i * step] = static_cast<std::byte>(static_cast<int8_t>(code));
  }
  return scale;
}

/// A head's part of a page: 16 tokens of `width` columns, [width][16] or [16][width].
struct PagePart {
  std::byte* data;
  size_t width;
  bool tokens_inside;

  /// Of a token's column, or of the scale of its block, where `columns` are the columns or blocks of a token.
  size_t place(size_t token, size_t column, size_t columns) const {
    return tokens_inside ? column * kPageTokens + token : token * columns + column;
  }

  /// Writes `from` (count) as columns [first, first + count) of a token.
  void put(KvFormat format, size_t token, size_t first, const float* from, size_t count) const {
    const size_t begin = place(token, first, width), step = tokens_inside ? kPageTokens : 1;
    if (format == KvFormat::kF32) {
      float* to = reinterpret_cast<float*>(data) + begin;
      for (size_t i = 0; i < count; ++i) to[i * step] = from[i];
    } else if (format == KvFormat::kBf16) {
      uint16_t* to = reinterpret_cast<uint16_t*>(data) + begin;
      for (size_t i = 0; i < count; ++i) to[i * step] = f32_to_bf16(from[i]);
    } else {
      auto* scales = reinterpret_cast<uint16_t*>(data + width * kPageTokens);
      for (size_t i = 0; i < count; i += kKvBlock) {
        scales[place(token, (first + i) / kKvBlock, width / kKvBlock)] =
            put_block(data + begin + i * step, step, from + i);
      }
    }
  }
};

}  // namespace

KvCache::KvCache(DeviceMemory& memory, const KvShape& shape, const KvRoom& room)
    : backend_(memory.backend()), shape_(shape), layout_(shape, room), memory_(memory, layout_.bytes) {
  for (const KvGroup& group : layout_.groups) pools_.emplace_back(group.pages);
  // Kernels read the padding lanes of values, so these must be numbers.
  if (!backend_.allocates_zeros()) backend_.clear(memory_.data(), memory_.bytes());
}

size_t KvCache::free_pages() const {
  size_t used = 0;
  for (size_t group = 0; group < pools_.size(); ++group) {
    if (!layout_.groups[group].recurrent) used = std::max(used, pages_in_use(group));
  }
  return pages() - used;
}

bool KvCache::recurrent() const { return std::ranges::any_of(layout_.groups, &KvGroup::recurrent); }

size_t KvCache::grown(size_t group, size_t past, size_t tokens) const {
  // A state is written by each pass, and copied first where others own it too.
  return layout_.groups[group].recurrent ? layout_.groups[group].paged(past) + 1 : tokens;
}

void KvCache::check_room(const KvPages& pages, size_t past, size_t tokens) const {
  if (pages_for(tokens) > layout_.pages) {
    throw Error("cannot_run", "a sequence of " + std::to_string(tokens) + " tokens exceeds the KV cache of " +
                                  std::to_string(layout_.pages) + " pages");
  }
  for (size_t group = 0; group < pools_.size(); ++group) {
    const KvGroup& layers = layout_.groups[group];
    const size_t needed = pools_[group].needed(pages[group], layers.paged(past), grown(group, past, tokens));
    const size_t free = pools_[group].free_pages();
    if (needed <= free) continue;
    const std::string what =
        layers.windowed() ? "the KV cache of layers with a window of " + std::to_string(layers.window) + " tokens, of "
                          : std::string("the KV cache of ");
    throw Error("cannot_run",
                what + std::to_string(layers.pages) + (layers.recurrent ? " recurrent states" : " pages") +
                    (layers.windowed() ? "," : "") + " has " + std::to_string(free) + " free, " +
                    std::to_string(needed) + " are needed",
                {{"pages", static_cast<double>(layers.pages)},
                 {"free_pages", static_cast<double>(free)},
                 {"needed_pages", static_cast<double>(needed)}});
  }
}

void KvCache::grow(KvPages& pages, size_t past, size_t tokens) {
  pages.resize(pools_.size());
  check_room(pages, past, tokens);
  for (size_t group = 0; group < pools_.size(); ++group) {
    pools_[group].grow(
        pages[group], layout_.groups[group].paged(past), grown(group, past, tokens), [&](uint32_t to, uint32_t from) {
          backend_.copy(page_bytes(group, to), page_bytes(group, from), layout_.groups[group].page_bytes);
        });
  }
}

void KvCache::shrink(KvPages& pages, size_t tokens) {
  for (size_t group = 0; group < pages.size(); ++group) {
    pools_[group].shrink(pages[group], layout_.groups[group].paged(tokens));
  }
}

void KvCache::drop_unseen(KvPages& pages, size_t tokens) {
  for (size_t group = 0; group < pages.size(); ++group) {
    pools_[group].drop(pages[group], layout_.groups[group].first_page(tokens));
  }
}

void KvCache::drop_state(KvPages& pages) {
  for (size_t group = 0; group < pages.size(); ++group) {
    if (layout_.groups[group].recurrent) pools_[group].shrink(pages[group], 0);
  }
}

KvPages KvCache::fork(const KvPages& pages, size_t tokens) {
  KvPages forked;
  for (size_t group = 0; group < pages.size(); ++group) {
    const bool dropped = layout_.groups[group].recurrent && pages[group].ids.empty();
    forked.push_back(dropped ? PageRun{} : pools_[group].fork(pages[group], layout_.groups[group].paged(tokens)));
  }
  return forked;
}

std::byte* KvCache::keys(uint32_t page, size_t layer, size_t head) {
  return place_of(page, layer) + kv_bytes(shape_.format, head * layout_.layers[layer].head_dim * kPageTokens);
}

std::byte* KvCache::values(uint32_t page, size_t layer, size_t head) {
  const KvLayout::Layer& place = layout_.layers[layer];
  const size_t before = place.key_elements() + head * kPageTokens * place.head_dim_padded();
  return keys(page, layer, 0) + kv_bytes(shape_.format, before);
}

size_t KvCache::page_elements(size_t layer) const {
  return layout_.groups[group_of(layer)].page_bytes / kv_bytes(shape_.format, 1);
}

void KvCache::write_keys(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  const PageRun& run = pages[group_of(layer)];
  const KvLayout::Layer& place = layout_.layers[layer];
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = run.at((position + i) / kPageTokens);
    for (size_t head = 0; head < place.heads; ++head, rows += place.head_dim) {
      PagePart{keys(page, layer, head), place.head_dim, true}.put(shape_.format, (position + i) % kPageTokens, 0, rows,
                                                                  place.head_dim);
    }
  }
}

void KvCache::write_values(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  const PageRun& run = pages[group_of(layer)];
  const KvLayout::Layer& place = layout_.layers[layer];
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = run.at((position + i) / kPageTokens);
    for (size_t head = 0; head < place.heads; ++head, rows += place.head_dim) {
      PagePart{values(page, layer, head), place.head_dim_padded(), false}.put(
          shape_.format, (position + i) % kPageTokens, 0, rows, place.head_dim);
    }
  }
}

void KvCache::write_row(const KvPages& pages, size_t layer, size_t position, size_t first, const float* row,
                        size_t columns) {
  std::byte* page = rows(pages[group_of(layer)].at(position / kPageTokens), layer);
  PagePart{page, layout_.layers[layer].head_dim_padded(), false}.put(shape_.format, position % kPageTokens, first, row,
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

void KvCache::check_held(const KvPages& pages, size_t tokens, bool has_state) const {
  for (size_t group = 0; group < pages.size(); ++group) {
    const KvGroup& layers = layout_.groups[group];
    const size_t first = layers.first_page(tokens);
    const size_t end = layers.recurrent && !has_state ? 0 : pages_for(layers.paged(tokens));
    if (pages[group].first == first && pages[group].end() == end) continue;
    throw Error("internal", pool_name(layers) + " pages " + std::to_string(pages[group].first) + " to " +
                                std::to_string(pages[group].end()) + " are held by a sequence of " +
                                std::to_string(tokens) + " tokens, which needs " + std::to_string(first) + " to " +
                                std::to_string(end) + ". This is a bug.");
  }
}

}  // namespace sida
