#include "kv/kv_layout.h"

#include <algorithm>

#include "kv/page_pool.h"

namespace sida {
namespace {

/// Pages that `tokens` neighbours may touch, wherever the first one lies in its page.
size_t pages_touched(size_t tokens) { return pages_for(tokens - 1) + 1; }

/// Between passes a sequence holds the window - 1 keys that its next token sees, and the page that it began. A sequence
/// with all tokens of a pass holds both together. Tokens that go to further sequences instead begin at most one page
/// more in each.
size_t window_pages(size_t window, const KvRoom& room, size_t all) {
  if (window >= room.tokens || room.pass_tokens >= room.tokens) return all;
  const size_t further = pages_touched(std::max<size_t>(window - 1, 1)) + 1;
  return std::min(all, pages_touched(window - 1 + room.pass_tokens) + (room.windows - 1) * further);
}

}  // namespace

KvShape KvShape::of(const ModelSpec& spec, KvFormat format) {
  const StackSpec& last = spec.last();
  const AttentionSpec& attention = last.layers.front().self;
  KvShape shape{last.layers.size(), attention.kv_heads, attention.head_dim, false, format};
  if (attention.latent) return {last.layers.size(), 1, attention.latent->row(), true, format};
  // Keys for cross-attention are seen whole, and lie in the same pages.
  if (spec.stacks.size() > 1) return shape;
  for (const LayerSpec& layer : last.layers) {
    shape.windows.push_back(layer.self.window.value_or(kNoWindow));
    shape.by_layer.push_back({layer.self.kv_heads, layer.self.head_dim});
  }
  const auto first = [&](const KvHeads& heads) { return heads == shape.by_layer.front(); };
  if (std::all_of(shape.by_layer.begin(), shape.by_layer.end(), first)) shape.by_layer.clear();
  return shape;
}

size_t KvGroup::first_page(size_t tokens) const {
  return windowed() && tokens + 1 > window ? (tokens + 1 - window) / kPageTokens : 0;
}

KvLayout::KvLayout(const KvShape& shape, const KvRoom& room) : pages(pages_for(room.tokens)) {
  for (size_t i = 0; i < shape.layers; ++i) {
    size_t window = shape.windows.empty() ? KvShape::kNoWindow : shape.windows[i];
    // No sequence outgrows such a window.
    if (window >= room.tokens) window = KvShape::kNoWindow;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const KvGroup& g) { return g.window == window; });
    if (group == groups.end()) {
      groups.push_back({window, 0, window_pages(window, room, pages), 0, 0});
      group = groups.end() - 1;
    }
    const auto [heads, head_dim] = shape.heads_of(i);
    layers.push_back({static_cast<size_t>(group - groups.begin()), group->page_bytes, heads, head_dim});
    const Layer& layer = layers.back();
    const size_t values = heads * kPageTokens * layer.head_dim_padded();
    ++group->layers;
    group->page_bytes += kv_bytes(shape.format, shape.latent ? values : layer.key_elements() + values);
  }
  for (KvGroup& group : groups) {
    group.begin = bytes;
    bytes += group.pages * group.page_bytes;
  }
}

}  // namespace sida
