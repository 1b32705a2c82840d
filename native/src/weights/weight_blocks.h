#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "weights/weight_format.h"

namespace sida {

/// The type that takes blocks of GGUF's `dtype` without loss; is_blocked() holds for it.
WeightFormat format_of_blocks(Dtype dtype);

/// Packs `rows`, (n, k) in blocks of `dtype` (core/ggml_blocks.h), as format_of_blocks() to `out`; k is a multiple of a
/// block's elements. The packed numbers have the bits that dequantize() gives them.
void pack_blocks(Dtype dtype, const std::byte* rows, size_t n, size_t k, std::byte* out);

}  // namespace sida
