#pragma once

#include "expert/expert_layout.h"
#include "model/spec.h"

namespace sida {

/// The shape of a model's experts. Without MoE layers it has no layers and no experts.
ExpertShape expert_shape_of(const ModelSpec& spec);

}  // namespace sida
