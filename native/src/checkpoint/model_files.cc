#include "checkpoint/model_files.h"

#include <utility>
#include <vector>

#include "checkpoint/contained_path.h"
#include "core/checkpoint_error.h"
#include "core/file.h"
#include "model/model_config.h"

namespace sida {
namespace {

constexpr uint64_t kMaxConfigBytes = 16 << 20;

}  // namespace

std::string read_contained(const std::string& directory, const std::string& name, uint64_t max_bytes) {
  const std::string path = contained_path(directory, name);
  if (path.empty()) {
    throw checkpoint_error({join_path(directory, name),
                            "",
                            "missing file",
                            "a Hugging Face checkpoint directory",
                            "no " + name,
                            "",
                            {}});
  }
  return read_text_file(path, max_bytes);
}

ModelFiles read_model_files(const std::string& directory) {
  ModelFiles files;
  files.config_text = read_contained(directory, "config.json", kMaxConfigBytes);
  ModelConfig config = parse_model_config(files.config_text, join_path(directory, "config.json"));
  files.family = config.family;
  files.spec = std::move(config.spec);
  const std::string generation = "generation_config.json";
  if (const std::string path = contained_path(directory, generation); !path.empty()) {
    const std::vector<int32_t> end = files.spec.tokens.end;
    read_generation_config(read_text_file(path, kMaxConfigBytes), join_path(directory, generation), &files.spec);
    files.other_end = files.spec.tokens.end != end;
  }
  return files;
}

}  // namespace sida
