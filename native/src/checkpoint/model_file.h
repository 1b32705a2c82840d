#pragma once

#include <cstdint>
#include <string>

#include "core/file.h"

namespace sida {

/// Opens a file that a checkpoint, pack or predictor brings. Throws as contained_path, checkpoint_invalid where there
/// is no such file, and io_error where it cannot be opened.
File open_model_file(const std::string& directory, const std::string& name);

/// The text of such a file. Throws as open_model_file, and checkpoint_invalid where it is larger than `max_bytes`.
std::string read_model_file(const std::string& directory, const std::string& name, uint64_t max_bytes);

}  // namespace sida
