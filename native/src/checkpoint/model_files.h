#pragma once

#include <cstdint>
#include <string>

#include "model/families/family.h"
#include "model/spec.h"

namespace sida {

/// The contents of config.json and generation_config.json of a checkpoint or pack. The latter may be absent.
struct ModelFiles {
  const Family* family = nullptr;
  ModelSpec spec;
};

/// Throws io_error or checkpoint_invalid.
ModelFiles read_model_files(const std::string& directory);

}  // namespace sida
