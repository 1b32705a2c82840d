#pragma once

#include "spec/config_reader.h"
#include "spec/spec.h"

namespace sida {

/// Replaces the MoE layers of a Qwen stack that its config makes dense by `decoder_sparse_step` and `mlp_only_layers`.
/// `width` is the family's default of intermediate_size.
void make_dense_layers(const ConfigReader& reader, int width, StackSpec& stack);

/// Sets the windows that `use_sliding_window` asks for: of the layers that `layer_types` names (without a list those of
/// even number among the first `max_window_layers`, as in transformers), or of all layers where a family has no such
/// list.
void read_windows(const ConfigReader& reader, bool has_layer_types, StackSpec& stack);

}  // namespace sida
