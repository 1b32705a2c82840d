#include "weights/expert_shape.h"

#include <algorithm>
#include <vector>

namespace sida {

ExpertShape expert_shape_of(const ModelSpec& spec) {
  const MoeSpec* moe = spec.moe();
  if (moe == nullptr) return {.width = spec.width};
  ExpertShape shape{spec.width,     moe->expert.width, moe->expert.activation, spec.moe_layer_count(),
                    spec.experts(), moe->expert.biased};
  const std::vector<size_t> counts = experts_by_layer(spec);
  if (std::all_of(counts.begin(), counts.end(), [&](size_t count) { return count == shape.experts_per_layer; })) {
    return shape;
  }
  shape.first = {0};
  for (const size_t count : counts) shape.first.push_back(shape.first.back() + static_cast<ExpertId>(count));
  return shape;
}

std::vector<size_t> experts_by_layer(const ModelSpec& spec) {
  std::vector<size_t> counts;
  for (const StackSpec& stack : spec.stacks) {
    for (const LayerSpec& layer : stack.layers) {
      if (const MoeSpec* moe = layer.moe()) counts.push_back(moe->experts);
    }
  }
  return counts;
}

}  // namespace sida
