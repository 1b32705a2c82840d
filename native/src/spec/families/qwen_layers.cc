#include "spec/families/qwen_layers.h"

#include <algorithm>
#include <vector>

#include "spec/families/config_limits.h"
#include "spec/families/decoder_config.h"

namespace sida {

void make_dense_layers(const ConfigReader& reader, int width, StackSpec& stack) {
  const FfnSpec dense{read_count(reader, "intermediate_size", kMaxFfnWidth, width), Activation::kSwiglu};
  const size_t step = read_count(reader, "decoder_sparse_step", kMaxLayers, 1);
  const auto only = reader.integers("mlp_only_layers", 0, kMaxLayers, kMaxLayers);
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    const bool named = only && std::ranges::find(*only, static_cast<int>(layer)) != only->end();
    if (named || (layer + 1) % step != 0) stack.layers[layer].feed_forward = dense;
  }
}

void read_windows(const ConfigReader& reader, bool has_layer_types, StackSpec& stack) {
  if (!reader.boolean("use_sliding_window", false) || reader.is_null("sliding_window")) return;
  const size_t window = read_count(reader, "sliding_window", kMaxCount, 4096);
  const auto types = has_layer_types ? read_layer_types(reader, stack.layers.size()) : std::nullopt;
  const auto below = static_cast<size_t>(reader.integer("max_window_layers", 0, kMaxCount, 28));
  const auto windowed = [&](size_t layer) {
    if (types) return static_cast<bool>((*types)[layer]);
    return !has_layer_types || (layer % 2 == 0 && layer < below);
  };
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    if (windowed(layer)) stack.layers[layer].self.window = window;
  }
}

}  // namespace sida
