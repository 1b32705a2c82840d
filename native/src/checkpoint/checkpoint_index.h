#pragma once

#include <string>
#include <vector>

#include "checkpoint/safetensors_file.h"

namespace sida {

/// Opens the shards that a model.safetensors.index.json names, ordered by file name. Checks that
/// each lies in the directory and holds exactly the tensors that the index says, and the index's total size.
/// Throws io_error or checkpoint_invalid.
std::vector<SafetensorsFile> open_shards(const std::string& directory, const JsonInput& index,
                                         const std::string& index_file);

}  // namespace sida
