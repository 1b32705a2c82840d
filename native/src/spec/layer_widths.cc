#include "spec/layer_widths.h"

#include <algorithm>

namespace sida {

LayerWidths::LayerWidths(const ModelSpec& spec) {
  for (const StackSpec& stack : spec.stacks) {
    size_t rotated = 0;
    for (size_t i = 0; i < stack.ropes(); ++i) rotated += stack.rope(i).width();
    rotary = std::max(rotary, rotated);
    for (const LayerSpec& layer : stack.layers) {
      layer.delta ? add(*layer.delta) : add(layer.self);
      if (layer.cross) add(*layer.cross);
      if (layer.post_norms) branch = spec.width;
      if (const MoeSpec* moe = layer.moe()) {
        add(*moe);
      } else {
        dense = std::max(dense, std::get<FfnSpec>(layer.feed_forward).width);
      }
    }
  }
}

void LayerWidths::add(const AttentionSpec& attention) {
  query = std::max(query, attention.query_width());
  key = std::max(key, attention.kv_width());
  value = std::max(value, attention.kv_width());
  if (attention.gated) key = std::max(key, attention.query_width());
  if (!attention.latent) return;
  value = std::max({value, attention.latent->query_rank, attention.output_width()});
  latent = std::max(latent, (attention.latent->row() + 15) / 16 * 16);
  latent_heads = std::max(latent_heads, attention.heads * latent);
}

void LayerWidths::add(const DeltaSpec& delta) {
  query = std::max(query, delta.value_width());
  key = std::max(key, 2 * delta.key_width());
  value = std::max(value, delta.value_width() + 2 * delta.value_heads);
}

void LayerWidths::add(const MoeSpec& moe) {
  expert = std::max(expert, moe.expert.width);
  if (!moe.shared) return;
  dense = std::max(dense, moe.shared->ffn.width);
  if (moe.shared->gate != SharedGate::kNone) {
    gates = std::max<size_t>(gates, moe.shared->gate == SharedGate::kSoftmax ? 2 : 1);
  }
}

}  // namespace sida
