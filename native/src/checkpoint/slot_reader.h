#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "weights/weight_format.h"

namespace sida {

/// The narrowest type that holds all numbers of a slot's matrix.
WeightFormat own_format(const SlotData& data);

/// Rows [row, row + rows) of a slot of k columns, as f32, into `out`. Where `format` is quantized, throws
/// checkpoint_invalid naming the first weight that is NaN, infinite or too large for the type, because no scale could
/// represent it. Throws it also where the scale of a block is no number, and as read_fp8().
void read_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t rows, uint64_t k,
               WeightFormat format, std::vector<float>& out);

/// Whether a slot's rows of k columns are whole blocks of a type of GGUF, `data.tensor->dtype`, that could be kept as
/// they are.
bool has_block_rows(const SlotData& data, uint64_t k);

/// The blocks of rows [row, row + rows) of such a slot, as they are in the file (core/ggml_blocks.h): of each row its
/// k / dtype_block().elements blocks, the rows in the order of the slot. Throws as check_finite_blocks().
void read_block_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t rows, uint64_t k,
                     std::vector<std::byte>& out);

/// The same rows packed to `out`, panel_matrix_bytes(). A matrix whose own type is `format` is copied block by block.
void pack_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t rows, uint64_t k,
               WeightFormat format, std::vector<float>& numbers, std::byte* out);

}  // namespace sida
