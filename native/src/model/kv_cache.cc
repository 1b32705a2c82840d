#include "model/kv_cache.h"

#include <cstring>
#include <string>

#include "core/error.h"

namespace sida {
namespace {

size_t padded(size_t head_dim) { return (head_dim + 15) / 16 * 16; }

size_t layer_floats(const KvShape& shape) {
  if (shape.latent) return kPageTokens * padded(shape.head_dim);
  return shape.heads * kPageTokens * (shape.head_dim + padded(shape.head_dim));
}

}  // namespace

KvShape KvShape::of(const ModelSpec& spec) {
  const StackSpec& last = spec.last();
  const AttentionSpec& attention = last.layers.front().self;
  if (attention.latent) return {last.layers.size(), 1, attention.latent->row(), true};
  return {last.layers.size(), attention.kv_heads, attention.head_dim};
}

uint64_t KvCache::bytes(const KvShape& shape, size_t tokens) {
  return pages_for(tokens) * layer_floats(shape) * shape.layers * sizeof(float);
}

KvCache::KvCache(DeviceMemory& memory, const KvShape& shape, size_t tokens)
    : backend_(memory.backend()),
      shape_(shape),
      head_dim_padded_(padded(shape.head_dim)),
      layer_floats_(layer_floats(shape)),
      page_floats_(layer_floats_ * shape.layers),
      memory_(memory, bytes(shape, tokens)),
      owners_(pages_for(tokens)) {
  for (size_t page = owners_.size(); page > 0; --page) free_.push_back(static_cast<uint32_t>(page - 1));
  // Kernels read the padding lanes of values, so these must be numbers.
  backend_.clear(memory_.data(), memory_.bytes());
}

uint32_t KvCache::take() {
  const uint32_t page = free_.back();
  free_.pop_back();
  owners_[page] = 1;
  return page;
}

void KvCache::give_back(uint32_t page) {
  if (--owners_[page] == 0) free_.push_back(page);
}

void KvCache::grow(KvPages& pages, size_t past, size_t tokens) {
  const size_t wanted = pages_for(tokens);
  const bool copies = past % kPageTokens != 0 && tokens > past && owners_[pages[past / kPageTokens]] > 1;
  const size_t added = wanted > pages.size() ? wanted - pages.size() : 0;
  if (added + copies > free_.size()) {
    throw Error("cannot_run",
                "the KV cache of " + std::to_string(owners_.size()) + " pages has " +
                    std::to_string(free_.size()) + " free, " + std::to_string(added + copies) + " are needed",
                {{"pages", static_cast<double>(owners_.size())},
                 {"free_pages", static_cast<double>(free_.size())},
                 {"needed_pages", static_cast<double>(added + copies)}});
  }
  if (copies) {
    uint32_t& shared = pages[past / kPageTokens];
    const uint32_t own = take();
    backend_.copy(page_bytes(own), page_bytes(shared), page_floats_ * sizeof(float));
    give_back(shared);
    shared = own;
  }
  while (pages.size() < wanted) pages.push_back(take());
}

void KvCache::shrink(KvPages& pages, size_t tokens) {
  for (const size_t kept = pages_for(tokens); pages.size() > kept; pages.pop_back()) give_back(pages.back());
}

KvPages KvCache::fork(const KvPages& pages, size_t tokens) {
  KvPages forked(pages.begin(), pages.begin() + static_cast<ptrdiff_t>(pages_for(tokens)));
  for (const uint32_t page : forked) ++owners_[page];
  return forked;
}

float* KvCache::keys(uint32_t page, size_t layer, size_t head) {
  return memory_.floats() + page * page_floats_ + layer * layer_floats_ + head * shape_.head_dim * kPageTokens;
}

float* KvCache::values(uint32_t page, size_t layer, size_t head) {
  return memory_.floats() + page * page_floats_ + layer * layer_floats_ +
         shape_.heads * shape_.head_dim * kPageTokens + head * kPageTokens * head_dim_padded_;
}

void KvCache::write_keys(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = pages[(position + i) / kPageTokens];
    const size_t lane = (position + i) % kPageTokens;
    for (size_t head = 0; head < shape_.heads; ++head) {
      float* out = keys(page, layer, head) + lane;
      const float* row = rows + (i * shape_.heads + head) * shape_.head_dim;
      for (size_t d = 0; d < shape_.head_dim; ++d) out[d * kPageTokens] = row[d];
    }
  }
}

void KvCache::write_values(const KvPages& pages, size_t layer, size_t position, const float* rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = pages[(position + i) / kPageTokens];
    const size_t lane = (position + i) % kPageTokens;
    for (size_t head = 0; head < shape_.heads; ++head) {
      float* out = values(page, layer, head) + lane * head_dim_padded_;
      std::memcpy(out, rows + (i * shape_.heads + head) * shape_.head_dim, shape_.head_dim * sizeof(float));
    }
  }
}

void KvCache::check_integrity(const std::vector<const KvPages*>& sequences) const {
  std::vector<uint32_t> named(owners_.size());
  for (const KvPages* pages : sequences) {
    for (const uint32_t page : *pages) ++named[page];
  }
  std::vector<uint32_t> free(owners_.size());
  for (const uint32_t page : free_) ++free[page];
  for (size_t page = 0; page < owners_.size(); ++page) {
    if (named[page] == owners_[page] && free[page] == (owners_[page] == 0 ? 1u : 0u)) continue;
    throw Error("internal", "KV page " + std::to_string(page) + " counts " + std::to_string(owners_[page]) +
                                " owners, " + std::to_string(named[page]) + " sequences name it and it is free " +
                                std::to_string(free[page]) + " times. This is a bug.");
  }
}

}  // namespace sida
