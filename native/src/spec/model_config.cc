#include "spec/model_config.h"

#include <numeric>
#include <string>
#include <vector>

#include "core/checkpoint_error.h"
#include "core/json.h"
#include "spec/families/config_limits.h"

namespace sida {

ModelConfig parse_model_config(std::string_view text, const std::string& file, const FieldNames& names) {
  const JsonDocument document = JsonDocument::parse(std::string(text), {file});
  const ConfigReader reader(document.root(), file, &names);
  const Family& family = family_of(reader);
  ModelConfig config{&family, family.read_config(reader), read_quantization(reader)};
  config.spec.family = family.model_type;
  const std::vector<size_t> counts = config.spec.layer_experts();
  const size_t experts = std::accumulate(counts.begin(), counts.end(), size_t{0});
  if (experts > kMaxAllExperts) {
    throw checkpoint_error({file,
                            "",
                            "experts of all layers",
                            "at most " + std::to_string(kMaxAllExperts),
                            std::to_string(experts),
                            "",
                            {}});
  }
  return config;
}

void read_generation_config(std::string_view text, const std::string& file, ModelSpec* spec) {
  const JsonDocument document = JsonDocument::parse(std::string(text), {file});
  const ConfigReader reader(document.root(), file);
  if (!reader.field("eos_token_id")) return;
  spec->tokens.end = reader.tokens("eos_token_id", spec->vocab, {});
}

}  // namespace sida
