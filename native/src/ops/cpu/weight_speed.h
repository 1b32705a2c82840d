#pragma once

#include "spec/activation_format.h"
#include "weights/expert_layout.h"

namespace sida {

/// Bytes of experts per second that `threads` threads of the CPU multiply by the activations of one token, of which
/// `top_k` experts each take a part: the rate of layers whose experts all lie in memory. Allocates at most 256 MiB for
/// a part of the experts, and takes about half a second. 0 for a model without experts. Throws out_of_memory.
double measure_weight_speed(const ExpertLayout& layout, size_t top_k, ActivationFormat activations, size_t threads);

}  // namespace sida
