#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "spec/tensors.h"

namespace sida {

/// The scales of a slot's FP8 blocks that cover rows [first, first + count) of its tensor, all dimensions but the last
/// counting as rows: whole rows of scales, in order. Throws checkpoint_invalid naming the first that is not positive,
/// or so large that the largest number of its block would be infinite.
std::vector<float> read_block_scales(const Checkpoint& checkpoint, const SlotData& data, uint64_t first,
                                     uint64_t count);

/// Whether bf16 holds every number of an FP8 slot: all its scales are powers of two, and not near the ends of bf16's
/// range. Throws as read_block_scales().
bool fits_bf16(const Checkpoint& checkpoint, const TensorSlot& slot, const SlotData& data);

/// Numbers [first, first + count) of a slot's FP8 tensor: each times its block's scale in f32, rounded once. Throws as
/// read_block_scales().
void read_fp8(const Checkpoint& checkpoint, const SlotData& data, uint64_t first, uint64_t count, float* out);

}  // namespace sida
