#pragma once

#include "spec/spec.h"
#include "weights/expert_layout.h"

namespace sida {

/// The shape of a model's experts. Without MoE layers it has no layers and no experts.
ExpertShape expert_shape_of(const ModelSpec& spec);

}  // namespace sida
