#include "checkpoint/model_file.h"

#include "checkpoint/contained_path.h"
#include "core/checkpoint_error.h"

namespace sida {

File open_model_file(const std::string& directory, const std::string& name) {
  const std::string path = contained_path(directory, name);
  if (path.empty()) {
    throw checkpoint_error({join_path(directory, name), "", "missing file", "a regular file", "none", "", {}});
  }
  // The path is real: a link in its place has been put there since.
  return File::open(path, /*follow_link=*/false);
}

std::string read_model_file(const std::string& directory, const std::string& name, uint64_t max_bytes) {
  const File file = open_model_file(directory, name);
  if (file.size() > max_bytes) {
    throw checkpoint_error({join_path(directory, name), "", "too large",
                            "at most " + std::to_string(max_bytes) + " bytes", std::to_string(file.size()), "",
                            expected_found(max_bytes, file.size())});
  }
  std::string text(file.size(), '\0');
  file.pread_exact(0, text.data(), text.size());
  return text;
}

}  // namespace sida
