#pragma once

#include <optional>
#include <string>

#include "spec/config_reader.h"
#include "spec/families/family.h"
#include "spec/quantization_config.h"
#include "spec/spec.h"

namespace sida {

/// The contents of config.json and generation_config.json of a checkpoint or pack. The latter may be absent.
struct ModelFiles {
  const Family* family = nullptr;
  ModelSpec spec;
  std::optional<Fp8Block> fp8;  ///< where the config says that matrices are FP8
};

/// The texts that such a model has.
struct ModelTexts {
  std::string config;
  std::optional<std::string> generation;
};

/// What errors about texts name that are made of one file: that file, and what it calls the config's fields.
struct TextsOrigin {
  std::string file;
  FieldNames fields;
};

/// Throws io_error or checkpoint_invalid.
ModelFiles read_model_files(const std::string& directory);
/// The same of texts that are made of one file.
ModelFiles read_model_files(const ModelTexts& texts, const TextsOrigin& origin);

}  // namespace sida
