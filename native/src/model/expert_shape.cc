#include "model/expert_shape.h"

namespace sida {

ExpertShape expert_shape_of(const ModelSpec& spec) {
  const MoeSpec* moe = spec.moe();
  if (moe == nullptr) return {.width = spec.width};
  return {spec.width, moe->expert.width, moe->expert.activation, spec.moe_layer_count(), moe->experts,
          moe->expert.biased};
}

}  // namespace sida
