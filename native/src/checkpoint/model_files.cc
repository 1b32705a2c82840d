#include "checkpoint/model_files.h"

#include <utility>

#include "checkpoint/contained_path.h"
#include "checkpoint/model_file.h"
#include "core/checkpoint_error.h"
#include "model/model_config.h"

namespace sida {
namespace {

constexpr uint64_t kMaxConfigBytes = 8 << 20;

}  // namespace

ModelFiles read_model_files(const std::string& directory) {
  ModelFiles files;
  const std::string display = join_path(directory, "config.json");
  if (contained_path(directory, "config.json").empty()) {
    throw checkpoint_error(
        {display, "", "missing file", "a Hugging Face checkpoint directory", "no config.json", "", {}});
  }
  ModelConfig config = parse_model_config(read_model_file(directory, "config.json", kMaxConfigBytes), display);
  files.family = config.family;
  files.spec = std::move(config.spec);
  const std::string generation = "generation_config.json";
  if (!contained_path(directory, generation).empty()) {
    const std::string name = join_path(directory, generation);
    read_generation_config(read_model_file(directory, generation, kMaxConfigBytes), name, &files.spec);
  }
  return files;
}

}  // namespace sida
