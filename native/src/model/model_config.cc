#include "model/model_config.h"

#include "core/json.h"

namespace sida {

ModelConfig parse_model_config(std::string_view text, const std::string& file, const FieldNames& names) {
  const JsonDocument document = JsonDocument::parse(std::string(text), {file});
  const ConfigReader reader(document.root(), file, &names);
  const Family& family = family_of(reader);
  ModelConfig config{&family, family.read_config(reader), read_quantization(reader)};
  config.spec.family = family.model_type;
  return config;
}

void read_generation_config(std::string_view text, const std::string& file, ModelSpec* spec) {
  const JsonDocument document = JsonDocument::parse(std::string(text), {file});
  const ConfigReader reader(document.root(), file);
  if (!reader.field("eos_token_id")) return;
  spec->tokens.end = reader.tokens("eos_token_id", spec->vocab, {});
}

}  // namespace sida
