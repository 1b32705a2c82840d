#include "weights/expert_shape.h"

namespace sida {

ExpertShape expert_shape_of(const ModelSpec& spec) {
  ExpertShape shape{.width = spec.width};
  const MoeSpec* moe = spec.moe();
  if (moe == nullptr) return shape;
  shape.hidden = moe->expert.width;
  shape.activation = moe->expert.activation;
  shape.biased = moe->expert.biased;
  shape.set_experts(spec.layer_experts());
  return shape;
}

}  // namespace sida
