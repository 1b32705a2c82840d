#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/tensor_info.h"

namespace sida {

/// Checks the scales of blocks that a GGUF file's `tensor` has from block `first` on. Throws checkpoint_invalid naming
/// the tensor and the first block whose numbers are NaN or infinite because a scale is; `file` names the file.
void check_finite_blocks(const std::string& file, const TensorInfo& tensor, uint64_t first,
                         std::span<const std::byte> blocks);

}  // namespace sida
