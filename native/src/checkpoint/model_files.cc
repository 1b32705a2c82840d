#include "checkpoint/model_files.h"

#include <utility>

#include "checkpoint/contained_path.h"
#include "checkpoint/model_file.h"
#include "core/checkpoint_error.h"
#include "spec/model_config.h"

namespace sida {
namespace {

constexpr uint64_t kMaxConfigBytes = 8 << 20;
constexpr const char* kGeneration = "generation_config.json";

ModelFiles read_texts(const ModelTexts& texts, const std::string& config_file, const std::string& generation_file,
                      const FieldNames& fields) {
  ModelConfig config = parse_model_config(texts.config, config_file, fields);
  ModelFiles files{config.family, std::move(config.spec), config.fp8};
  if (texts.generation) read_generation_config(*texts.generation, generation_file, &files.spec);
  return files;
}

}  // namespace

ModelFiles read_model_files(const std::string& directory) {
  const std::string display = join_path(directory, "config.json");
  if (contained_path(directory, "config.json").empty()) {
    throw checkpoint_error(
        {display, "", "missing file", "a Hugging Face checkpoint directory", "no config.json", "", {}});
  }
  ModelTexts texts{read_model_file(directory, "config.json", kMaxConfigBytes), std::nullopt};
  if (!contained_path(directory, kGeneration).empty()) {
    texts.generation = read_model_file(directory, kGeneration, kMaxConfigBytes);
  }
  return read_texts(texts, display, join_path(directory, kGeneration), {});
}

ModelFiles read_model_files(const ModelTexts& texts, const TextsOrigin& origin) {
  return read_texts(texts, origin.file, origin.file, origin.fields);
}

}  // namespace sida
