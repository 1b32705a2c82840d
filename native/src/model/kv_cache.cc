#include "model/kv_cache.h"

#include <cstring>
#include <string>

#include "core/error.h"

namespace sida {
namespace {

size_t padded(size_t d_kv) { return (d_kv + 15) / 16 * 16; }

size_t layer_floats(const SwitchConfig& config) {
  const auto d_kv = static_cast<size_t>(config.d_kv);
  return static_cast<size_t>(config.num_heads) * kPageTokens * (d_kv + padded(d_kv));
}

}  // namespace

uint64_t KvCache::bytes(const SwitchConfig& config, size_t tokens) {
  return pages_for(tokens) * layer_floats(config) * static_cast<size_t>(config.num_decoder_layers) * 4;
}

KvCache::KvCache(DeviceMemory& memory, const SwitchConfig& config, size_t tokens)
    : heads_(static_cast<size_t>(config.num_heads)),
      d_kv_(static_cast<size_t>(config.d_kv)),
      d_kv_padded_(padded(d_kv_)),
      layer_floats_(layer_floats(config)),
      page_floats_(layer_floats_ * static_cast<size_t>(config.num_decoder_layers)),
      pages_(pages_for(tokens)),
      memory_(memory, bytes(config, tokens)) {
  for (size_t page = pages_; page > 0; --page) free_.push_back(static_cast<uint32_t>(page - 1));
  // Padding lanes of values are read: they must be numbers.
  memory.backend().clear(memory_.data(), memory_.bytes());
}

void KvCache::grow(std::vector<uint32_t>& pages, size_t tokens) {
  const size_t wanted = pages_for(tokens);
  if (wanted <= pages.size()) return;
  if (wanted - pages.size() > free_.size()) {
    throw Error("cannot_run",
                "the KV cache of " + std::to_string(pages_) + " pages has " + std::to_string(free_.size()) +
                    " free, " + std::to_string(wanted - pages.size()) + " are needed",
                {{"pages", static_cast<double>(pages_)},
                 {"free_pages", static_cast<double>(free_.size())},
                 {"needed_pages", static_cast<double>(wanted - pages.size())}});
  }
  while (pages.size() < wanted) {
    pages.push_back(free_.back());
    free_.pop_back();
  }
}

void KvCache::shrink(std::vector<uint32_t>& pages, size_t tokens) {
  for (const size_t kept = pages_for(tokens); pages.size() > kept; pages.pop_back())
    free_.push_back(pages.back());
}

float* KvCache::keys(uint32_t page, size_t layer, size_t head) {
  return memory_.floats() + page * page_floats_ + layer * layer_floats_ + head * d_kv_ * kPageTokens;
}

float* KvCache::values(uint32_t page, size_t layer, size_t head) {
  return memory_.floats() + page * page_floats_ + layer * layer_floats_ + heads_ * d_kv_ * kPageTokens +
         head * kPageTokens * d_kv_padded_;
}

void KvCache::write_keys(const std::vector<uint32_t>& pages, size_t layer, size_t position, const float* rows,
                         size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = pages[(position + i) / kPageTokens];
    const size_t lane = (position + i) % kPageTokens;
    for (size_t head = 0; head < heads_; ++head) {
      float* out = keys(page, layer, head) + lane;
      const float* row = rows + (i * heads_ + head) * d_kv_;
      for (size_t d = 0; d < d_kv_; ++d) out[d * kPageTokens] = row[d];
    }
  }
}

void KvCache::write_values(const std::vector<uint32_t>& pages, size_t layer, size_t position,
                           const float* rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t page = pages[(position + i) / kPageTokens];
    const size_t lane = (position + i) % kPageTokens;
    for (size_t head = 0; head < heads_; ++head) {
      float* out = values(page, layer, head) + lane * d_kv_padded_;
      std::memcpy(out, rows + (i * heads_ + head) * d_kv_, d_kv_ * sizeof(float));
    }
  }
}

}  // namespace sida
