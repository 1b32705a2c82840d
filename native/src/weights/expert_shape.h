#pragma once

#include <cstddef>
#include <vector>

#include "spec/spec.h"
#include "weights/expert_layout.h"

namespace sida {

/// The shape of a model's experts. Without MoE layers it has no layers and no experts.
ExpertShape expert_shape_of(const ModelSpec& spec);

/// Each MoE layer's number of experts, in flat order.
std::vector<size_t> experts_by_layer(const ModelSpec& spec);

}  // namespace sida
