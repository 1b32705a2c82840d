#pragma once

#include <optional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "weights/expert_layout.h"
#include "weights/weight_format.h"

namespace sida {

/// Element types of a pack's matrices.
struct PackFormats {
  /// The type of the matrices of all experts; nothing where they differ.
  std::optional<WeightFormat> all_experts;
  /// The type of all linear weights and embeddings; nothing where they differ.
  std::optional<WeightFormat> all_dense;
  std::vector<ExpertFormats> experts;  ///< by MoE layer
  /// By dense slot, in their order; for those of other forms than TensorForm::kMatrix it has no meaning.
  std::vector<WeightFormat> dense;

  void set_experts(const ModelSpec& spec, WeightFormat format);
  void set_dense(const ModelSpec& spec, WeightFormat format);
};

PackFormats uniform_formats(const ModelSpec& spec, WeightFormat experts, WeightFormat dense);

/// The types that lose nothing: each matrix's own where one of the kind is quantized in the checkpoint. Otherwise bf16
/// where all matrices of the kind are, or FP8 with scales that are powers of two, else f32. Throws checkpoint_invalid
/// where a tensor is missing or misshapen, or a scale unsound.
PackFormats lossless_formats(const Checkpoint& checkpoint);

/// The same with another type for all experts or dense matrices where one is given. Throws invalid_request for a
/// type that sida only copies where not all of them are of that type already.
PackFormats chosen_formats(const Checkpoint& checkpoint, std::optional<WeightFormat> experts,
                           std::optional<WeightFormat> dense);

}  // namespace sida
