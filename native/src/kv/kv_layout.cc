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
  const AttentionSpec& attention = last.attention();
  KvShape shape{last.layers.size(), attention.kv_heads, attention.head_dim, false, format};
  if (attention.latent) return {last.layers.size(), 1, attention.latent->row(), true, format};
  if (!last.causal) {
    // The keys of an encoder alone are read by their own layer, and no later pass: rounding them would save nothing.
    shape.layers = 1;
    shape.format = KvFormat::kF32;
  }
  // Keys for cross-attention are seen whole, and lie in the same pages.
  if (spec.stacks.size() > 1 || !last.causal) return shape;
  for (const LayerSpec& layer : last.layers) {
    const AttentionSpec& own = layer.delta ? attention : layer.self;
    shape.windows.push_back(own.window.value_or(kNoWindow));
    shape.by_layer.push_back({own.kv_heads, own.head_dim});
    shape.states.push_back(layer.delta ? layer.delta->state_floats() : 0);
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
    const size_t state = shape.states.empty() ? 0 : shape.states[i];
    const auto same = [&](const KvGroup& g) { return g.window == window && g.recurrent == (state > 0); };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) {
      groups.push_back({window, 0, state > 0 ? room.states : window_pages(window, room, pages), 0, 0, state > 0});
      group = groups.end() - 1;
    }
    const auto [heads, head_dim] = shape.heads_of(i);
    layers.push_back({static_cast<size_t>(group - groups.begin()), group->page_bytes, heads, head_dim});
    const Layer& layer = layers.back();
    const size_t values = heads * kPageTokens * layer.head_dim_padded();
    ++group->layers;
    const size_t keys_and_values = shape.latent ? values : layer.key_elements() + values;
    group->page_bytes += state > 0 ? (state + 15) / 16 * 16 * sizeof(float) : kv_bytes(shape.format, keys_and_values);
  }
  for (KvGroup& group : groups) {
    group.begin = bytes;
    bytes += group.pages * group.page_bytes;
  }
}

}  // namespace sida
