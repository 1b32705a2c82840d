#pragma once

#include <string_view>
#include <vector>

#include "spec/families/family.h"

namespace sida {

// Names of tensors that the checkpoints of decoder-only families have in common.

/// Where a layer's MoE block may lie, and how its experts' matrices are called there.
struct MoeNames {
  std::vector<const char*> blocks = {"mlp."};  ///< names of newer files after those of older ones
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  const char* shared = "shared_expert.";
};

/// Checkpoints on the hub have one tensor for each matrix of an expert. Newer files may hold all gate and up
/// projections of a layer in one tensor (experts, 2 · hidden, width), gates first, and all down projections in another.
TensorSource decoder_source(const ModelSpec& spec, const TensorSlot& slot, const MoeNames& names);
/// By the default names.
TensorSource decoder_source(const ModelSpec& spec, const TensorSlot& slot);

/// Whether a name is that of a layer's weight. Old code also wrote the rotary frequencies, which follow from the
/// config; the layers of multi-token prediction after the last one are not read.
bool owns_decoder_tensor(const ModelSpec& spec, std::string_view name);

/// The same of what stands behind the prefix of all layers, such as "12.mlp.gate.weight".
bool owns_layer(const ModelSpec& spec, std::string_view number);

}  // namespace sida
