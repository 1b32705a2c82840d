#pragma once

#include "checkpoint/checkpoint.h"
#include "ops/weight_format.h"

namespace sida {

/// Element types of a pack that lose nothing.
struct LosslessFormats {
  WeightFormat experts;
  WeightFormat dense;
};

/// bf16 where all matrices of the kind are bf16 in the checkpoint, else f32. Throws checkpoint_invalid where a tensor
/// is
/// missing or misshapen.
LosslessFormats lossless_formats(const Checkpoint& checkpoint);

}  // namespace sida
