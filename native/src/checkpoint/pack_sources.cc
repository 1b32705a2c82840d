#include "checkpoint/pack_sources.h"

#include <algorithm>
#include <utility>

#include "core/checkpoint_error.h"
#include "weights/panels.h"

namespace sida {

namespace {

/// The stack and the layer in it of a flat MoE layer.
std::pair<size_t, size_t> stack_and_layer(const ModelSpec& spec, size_t moe_layer) {
  for (size_t stack = 0; stack < spec.stacks.size(); ++stack) {
    const std::vector<LayerSpec>& layers = spec.stacks[stack].layers;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (layers[layer].moe() != nullptr && moe_layer-- == 0) return {stack, layer};
    }
  }
  throw Error("internal", "no such MoE layer. This is a bug.");
}

}  // namespace

std::vector<ExpertSource> expert_sources(const Checkpoint& checkpoint, const Pack& pack, ExpertId id) {
  const ExpertPlace place = pack.experts.shape.place(id);
  const auto [stack, layer] = stack_and_layer(pack.spec, place.layer);
  const std::vector<ExpertMatrix>& matrices = pack.experts.layers[place.layer].matrices;
  std::vector<ExpertSource> sources;
  size_t matrix = 0;
  for (const TensorSlot& slot : expert_slots(pack.spec, stack, layer, place.index)) {
    // A bias comes after its matrix.
    const bool bias = slot.shape.size() == 1;
    sources.push_back({checkpoint.source_of(slot), matrices[bias ? matrix - 1 : matrix++], bias});
  }
  return sources;
}

std::string expert_name(const Pack& pack, ExpertId id) {
  const ExpertPlace place = pack.experts.shape.place(id);
  return pack.spec.moe_layers().at(place.layer) + " expert " + std::to_string(place.index);
}

uint64_t rows_at_a_time(uint64_t k) {
  return std::max<uint64_t>(1, (4 << 20) / (k * kPanelColumns * sizeof(float))) * kPanelColumns;
}

}  // namespace sida
