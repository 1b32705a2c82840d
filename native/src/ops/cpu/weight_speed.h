#pragma once

#include "spec/activation_format.h"
#include "weights/expert_layout.h"

namespace sida {

/// Measures how many bytes of experts in memory `threads` CPU threads multiply in a second by the activations of one
/// token. A token takes `top_k` experts. Allocates at most 256 MiB and takes about half a second. Returns 0 for a model
/// without experts. Throws out_of_memory.
double measure_weight_speed(const ExpertLayout& layout, size_t top_k, ActivationFormat activations, size_t threads);

}  // namespace sida
