#pragma once

#include <string>
#include <vector>

#include "checkpoint/gguf_file.h"

namespace sida {

/// What a GGUF file has in front of its data.
struct GgufHead {
  std::vector<GgufEntry> entries;   ///< ordered by key
  std::vector<TensorInfo> tensors;  ///< in the order of the file
};

/// Reads and checks the head of a GGUF file. Throws io_error or checkpoint_invalid.
GgufHead read_gguf_head(const File& file, const std::string& display);

}  // namespace sida
