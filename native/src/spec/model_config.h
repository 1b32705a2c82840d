#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spec/config_reader.h"
#include "spec/families/family.h"
#include "spec/quantization_config.h"
#include "spec/spec.h"

namespace sida {

struct ModelConfig {
  const Family* family;
  ModelSpec spec;
  std::optional<Fp8Block> fp8;  ///< where the config says that matrices are FP8
};

/// Reads and checks the text of a config.json. A missing field takes transformers' default. Errors call the text `file`
/// and its fields by `names`. Throws checkpoint_invalid naming the field that is out of range or asks for something
/// unsupported.
ModelConfig parse_model_config(std::string_view text, const std::string& file, const FieldNames& names = {});

/// Reads the text of a generation_config.json and replaces the end tokens of `spec` where it names any. Throws as
/// parse_model_config.
void read_generation_config(std::string_view text, const std::string& file, ModelSpec* spec);

}  // namespace sida
