#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_file.h"
#include "model/switch_config.h"

namespace sida {

// A Hugging Face checkpoint directory: config.json and either model.safetensors or the shards that
// model.safetensors.index.json names. Nothing outside the directory is opened (the blobs of a Hugging Face
// cache count as inside). Reads block and may come from any number of threads.
class Checkpoint {
 public:
  // Opens and checks config, index and every header. Throws io_error or checkpoint_invalid.
  static Checkpoint open(const std::string& directory);

  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;

  const SwitchConfig& config() const { return config_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Ordered by name.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  size_t tensor_count() const { return tensors_.size(); }
  // Bytes of all tensors.
  uint64_t total_bytes() const;
  // "f32", "bf16" or "f16" where all floating tensors are of that type, else "mixed".
  std::string dtype_summary() const;
  // sha256, hexadecimal, over config.json and every file's name and header. Reads the headers again.
  std::string fingerprint() const;

  // Null where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  // Throws checkpoint_invalid where the tensor is missing, has another shape or is not f32, bf16 or f16.
  const TensorInfo& require(std::string_view name, const std::vector<uint64_t>& shape) const;

  // Embedding of each stack and the head, each (vocab_size, d_model). Tied, all three are one tensor under
  // whichever of its names the file holds; untied, a stack without its own embedding uses shared.weight.
  const TensorInfo& encoder_embedding() const;
  const TensorInfo& decoder_embedding() const;
  const TensorInfo& head() const;

  // Throws checkpoint_invalid where a tensor that the model needs is missing or misshapen, or where the files
  // hold layers or experts that `config` does not know.
  void check_tensors(const SwitchConfig& config) const;
  void check_tensors() const { check_tensors(config_); }

  // Reads f32, bf16 or f16 data as floats; the second form elements [first_element, first_element + count).
  // Throws io_error where the file fails, checkpoint_invalid where it has changed since it was opened.
  void read_f32(const TensorInfo& tensor, float* out) const;
  void read_f32(const TensorInfo& tensor, uint64_t first_element, uint64_t count, float* out) const;

 private:
  Checkpoint() = default;
  const TensorInfo& require_any(const std::vector<const char*>& names,
                                const std::vector<uint64_t>& shape) const;
  void index_tensors();
  std::string file_of(const TensorInfo* tensor) const;

  std::string directory_;
  std::string config_text_;
  SwitchConfig config_;
  std::vector<SafetensorsFile> files_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace sida
