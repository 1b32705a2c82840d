#pragma once

#include <string>
#include <string_view>

#include "model/families/family.h"
#include "model/spec.h"

namespace sida {

struct ModelConfig {
  const Family* family;
  ModelSpec spec;
};

/// Reads and checks the text of a config.json. A missing field takes transformers' default. `file` names the text in
/// errors. Throws checkpoint_invalid naming the field that is out of range or asks for something unsupported.
ModelConfig parse_model_config(std::string_view text, const std::string& file);

/// Reads the text of a generation_config.json and replaces the end tokens of `spec` where it names any. Throws as
/// parse_model_config.
void read_generation_config(std::string_view text, const std::string& file, ModelSpec* spec);

}  // namespace sida
