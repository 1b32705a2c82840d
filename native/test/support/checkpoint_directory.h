#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "support/repo_paths.h"
#include "support/safetensors_builder.h"
#include "support/tiny_model.h"

namespace sida::testing {

/// A checkpoint's directory with the config of a tiny model, the encoder-decoder one unless told otherwise.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(const std::string& config = tiny_config()) { write("config.json", config); }
  const std::string& path() const { return directory_.path(); }
  std::string at(const std::string& name) const { return path() + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const { write_file(at(name), bytes); }
  void write_tensors(const std::vector<BuiltTensor>& tensors,
                     const std::string& name = "model.safetensors") const {
    write(name, build_safetensors(tensors));
  }
  void write_index(const std::string& map, const std::string& metadata = "{}") const {
    write("model.safetensors.index.json", R"({"metadata":)" + metadata + R"(,"weight_map":{)" + map + "}}");
  }
  Checkpoint open() const { return Checkpoint::open(path()); }

 private:
  TempDir directory_;
};

}  // namespace sida::testing
