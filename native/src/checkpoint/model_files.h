#pragma once

#include <cstdint>
#include <string>

#include "model/families/family.h"
#include "model/spec.h"

namespace sida {

/// What config.json and generation_config.json of a checkpoint or pack say. Without the latter, nothing of it.
struct ModelFiles {
  std::string config_text;
  const Family* family = nullptr;
  ModelSpec spec;
  /// generation_config.json names other tokens to end a generation than config.json.
  bool other_end = false;
};

/// Throws io_error or checkpoint_invalid.
ModelFiles read_model_files(const std::string& directory);

}  // namespace sida
