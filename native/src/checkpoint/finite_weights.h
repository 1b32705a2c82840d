#pragma once

#include <cstddef>

#include "checkpoint/pack.h"

namespace sida {

/// Reads weights of a pack and throws pack_invalid at the first that is NaN or infinite, naming file, tensor or expert
/// and matrix, row and column. A quantized weight is not finite where its scale is not. Throws io_error.
void check_dense_finite(const Pack& pack);
/// Experts [begin, end).
void check_experts_finite(const Pack& pack, size_t begin, size_t end);

}  // namespace sida
