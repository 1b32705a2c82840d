#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace sida {

/// A tensor of a file of weights.
struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> shape;
  uint64_t offset = 0;  ///< of the first byte, from the beginning of the file
  uint64_t bytes = 0;
  uint32_t file = 0;  ///< which of the checkpoint's files

  uint64_t elements() const;
};

/// "[64, 128]"
std::string shape_text(const std::vector<uint64_t>& shape);

}  // namespace sida
