#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/weight_format.h"

namespace sida {

/// Rows [row, row + rows) of a slot of k columns, as f32, into `out`. Where `format` is quantized, throws
/// checkpoint_invalid naming the first weight that is NaN or infinite, because no scale could represent it. Throws it
/// also where an MXFP4 scale is not one that every pack can hold.
void read_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t rows, uint64_t k,
               WeightFormat format, std::vector<float>& out);

}  // namespace sida
