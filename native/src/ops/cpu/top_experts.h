#pragma once

#include <cstddef>
#include <cstdint>

#include "model/spec.h"

namespace sida {

/// The spec's top_k choices of one token from `probabilities` (experts), most probable first, the first of equal ones:
/// `expert` and `alpha` (top_k). The chosen experts differ also where probabilities are NaN.
void top_experts(const float* probabilities, size_t experts, const RouterSpec& spec, uint16_t* expert, float* alpha);

}  // namespace sida
