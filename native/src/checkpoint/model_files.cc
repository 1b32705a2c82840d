#include "checkpoint/model_files.h"

#include <utility>
#include <vector>

#include "checkpoint/contained_path.h"
#include "core/checkpoint_error.h"
#include "core/file.h"
#include "model/model_config.h"

namespace sida {
namespace {

constexpr uint64_t kMaxConfigBytes = 8 << 20;

/// `display` names the file in errors.
std::string read_bounded(const std::string& path, const std::string& display) {
  const File file = File::open(path);
  if (file.size() > kMaxConfigBytes) {
    throw checkpoint_error({display, "", "too large", "at most " + std::to_string(kMaxConfigBytes) + " bytes",
                            std::to_string(file.size()), "", expected_found(kMaxConfigBytes, file.size())});
  }
  std::string text(file.size(), '\0');
  file.pread_exact(0, text.data(), text.size());
  return text;
}

}  // namespace

ModelFiles read_model_files(const std::string& directory) {
  ModelFiles files;
  const std::string display = join_path(directory, "config.json");
  const std::string config_path = contained_path(directory, "config.json");
  if (config_path.empty()) {
    throw checkpoint_error(
        {display, "", "missing file", "a Hugging Face checkpoint directory", "no config.json", "", {}});
  }
  files.config_text = read_bounded(config_path, display);
  ModelConfig config = parse_model_config(files.config_text, display);
  files.family = config.family;
  files.spec = std::move(config.spec);
  const std::string generation = "generation_config.json";
  if (const std::string path = contained_path(directory, generation); !path.empty()) {
    const std::vector<int32_t> end = files.spec.tokens.end;
    const std::string name = join_path(directory, generation);
    read_generation_config(read_bounded(path, name), name, &files.spec);
    files.other_end = files.spec.tokens.end != end;
  }
  return files;
}

}  // namespace sida
