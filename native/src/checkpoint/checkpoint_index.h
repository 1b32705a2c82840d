#pragma once

#include <string>
#include <vector>

#include "checkpoint/pytorch_file.h"
#include "checkpoint/safetensors_file.h"

namespace sida {

/// Opens the shards that an index names, ordered by file name: SafetensorsFile or PytorchFile. Checks that each lies in
/// the directory and holds exactly the tensors that the index says, and the total size of safetensors. Throws io_error
/// or checkpoint_invalid.
template <typename Opened>
std::vector<Opened> open_shards(const std::string& directory, const JsonInput& index, const std::string& index_file);

}  // namespace sida
