#include "spec/spec.h"

#include <algorithm>

namespace sida {

size_t StackSpec::moe_layers() const {
  size_t count = 0;
  for (const LayerSpec& layer : layers) count += layer.moe() != nullptr;
  return count;
}

const AttentionSpec& StackSpec::attention() const {
  const auto found = std::ranges::find_if(layers, [](const LayerSpec& layer) { return !layer.delta; });
  return found == layers.end() ? layers.front().self : found->self;
}

const MoeSpec* ModelSpec::moe() const {
  const MoeSpec* most = nullptr;
  for (const StackSpec& stack : stacks) {
    for (const LayerSpec& layer : stack.layers) {
      const MoeSpec* moe = layer.moe();
      if (moe != nullptr && (most == nullptr || moe->experts > most->experts)) most = moe;
    }
  }
  return most;
}

size_t ModelSpec::moe_layer_count() const { return first_moe_layer(stacks.size()); }

std::vector<size_t> ModelSpec::layer_experts() const {
  std::vector<size_t> counts;
  for (const StackSpec& stack : stacks) {
    for (const LayerSpec& layer : stack.layers) {
      if (const MoeSpec* moe = layer.moe()) counts.push_back(moe->experts);
    }
  }
  return counts;
}

size_t ModelSpec::first_moe_layer(size_t stack) const {
  size_t count = 0;
  for (size_t i = 0; i < stack; ++i) count += stacks[i].moe_layers();
  return count;
}

std::vector<std::string> ModelSpec::moe_layers() const {
  std::vector<std::string> names;
  for (const StackSpec& stack : stacks) {
    for (size_t i = 0; i < stack.layers.size(); ++i) {
      if (stack.layers[i].moe() != nullptr) names.push_back(stack.name + "." + std::to_string(i));
    }
  }
  return names;
}

}  // namespace sida
