#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_file.h"

namespace sida {

// Opens the shards that the text of a model.safetensors.index.json names, ordered by file name. Checks that
// each lies in the directory and holds exactly the tensors that the index says, and the index's total size.
// Throws io_error or checkpoint_invalid.
std::vector<SafetensorsFile> open_shards(const std::string& directory, std::string_view index_text,
                                         const std::string& index_file);

}  // namespace sida
