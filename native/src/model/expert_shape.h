#pragma once

#include "expert/expert_layout.h"
#include "model/spec.h"

namespace sida {

/// Of a model's experts; without MoE layers, no layers of no experts.
ExpertShape expert_shape_of(const ModelSpec& spec);

}  // namespace sida
