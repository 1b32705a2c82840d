#pragma once

#include "checkpoint/checkpoint.h"
#include "support/safetensors_builder.h"
#include "support/test.h"
#include "support/tiny_model.h"

namespace sida::testing {

/// A checkpoint's directory with the config of a tiny model, the encoder-decoder one unless told otherwise.
class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(const std::string& config = tiny_config()) { write("config.json", config); }
  const std::string& path() const { return directory_.path(); }
  std::string at(const std::string& name) const { return path() + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const { write_file(at(name), bytes); }
  void write_tensors(const std::vector<BuiltTensor>& tensors, const std::string& name = "model.safetensors") const {
    write(name, build_safetensors(tensors));
  }
  void write_index(const std::string& map, const std::string& metadata = "{}") const {
    write("model.safetensors.index.json", R"({"metadata":)" + metadata + R"(,"weight_map":{)" + map + "}}");
  }
  Checkpoint open() const { return Checkpoint::open(path()); }

 private:
  TempDir directory_;
};

using Tensors = std::vector<BuiltTensor>;

/// Opens a checkpoint of these tensors, which are checked.
inline Checkpoint open_checkpoint(const std::string& config, const Tensors& tensors) {
  const CheckpointDirectory model(config);
  model.write_tensors(tensors);
  Checkpoint checkpoint = model.open();
  checkpoint.check_tensors();
  return checkpoint;
}

inline BuiltTensor& tensor_named(Tensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &BuiltTensor::name);
  REQUIRE_MESSAGE(found != tensors.end(), name);
  return *found;
}

inline Tensors without(Tensors tensors, const std::string& name) {
  std::erase_if(tensors, [&](const BuiltTensor& tensor) { return tensor.name == name; });
  return tensors;
}

/// Element i of a tensor of f32 becomes `from` + i.
inline void count_up(BuiltTensor& tensor, float from = 0) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::iota(values.begin(), values.end(), from);
  tensor.data = bytes_of(values);
}

}  // namespace sida::testing
