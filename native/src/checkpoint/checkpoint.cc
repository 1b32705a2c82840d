#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint_index.h"
#include "checkpoint/contained_path.h"
#include "checkpoint/gguf_model_files.h"
#include "checkpoint/model_file.h"
#include "checkpoint/model_files.h"
#include "checkpoint/pytorch_file.h"
#include "checkpoint/safetensors_file.h"
#include "core/checkpoint_error.h"
#include "core/file.h"

namespace sida {
namespace {

bool exists(const std::string& directory, const std::string& name) { return !contained_path(directory, name).empty(); }

/// Empty where there is neither `single` nor its index.
template <typename Opened>
std::vector<Opened> open_files(const std::string& directory, const std::string& single) {
  std::vector<Opened> files;
  const std::string index = single + ".index.json";
  if (exists(directory, single)) {
    files.push_back(Opened::open(join_path(directory, single)));
  } else if (exists(directory, index)) {
    const File file = open_model_file(directory, index);
    return open_shards<Opened>(directory, JsonInput(file), join_path(directory, index));
  }
  return files;
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& model) {
  Checkpoint checkpoint;
  checkpoint.path_ = model;
  checkpoint.gguf_ = is_gguf(model);
  checkpoint.gguf_ ? checkpoint.open_gguf_file() : checkpoint.open_directory();
  checkpoint.index_tensors();
  return checkpoint;
}

void Checkpoint::open_directory() {
  model_ = read_model_files(path_);
  take(open_files<SafetensorsFile>(path_, "model.safetensors"));
  if (files_.empty()) take(open_files<PytorchFile>(path_, "pytorch_model.bin"));
  if (!files_.empty()) return;
  throw checkpoint_error(
      {path_, "", "no weights", "model.safetensors, pytorch_model.bin or the index of one", "none", "", {}});
}

void Checkpoint::open_gguf_file() {
  std::vector<GgufFile> files = open_gguf(path_);
  model_ = read_gguf_model_files(files);
  take(std::move(files));
}

template <typename Opened>
void Checkpoint::take(std::vector<Opened> files) {
  size_t count = 0;
  for (const Opened& file : files) count += file.tensors().size();
  tensors_.reserve(count);
  for (Opened& file : files) {
    for (TensorInfo& tensor : file.take_tensors()) {
      tensor.file = static_cast<uint32_t>(files_.size());
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back({file.take_file(), file.display()});
  }
}

void Checkpoint::index_tensors() {
  const auto by_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; };
  std::sort(tensors_.begin(), tensors_.end(), by_name);
  for (size_t i = 1; i < tensors_.size(); ++i) {
    if (tensors_[i].name != tensors_[i - 1].name) continue;
    throw checkpoint_error({file_of(&tensors_[i]),
                            tensors_[i].name,
                            "appears in two files",
                            "one file",
                            "another in \"" + escape_text(file_of(&tensors_[i - 1])) + "\"",
                            "",
                            {}});
  }
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : tensors_) bytes += tensor.bytes;
  return bytes;
}

std::string Checkpoint::dtype_summary() const {
  std::string summary;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.dtype == Dtype::kF8E4M3) return "fp8";
    if (is_blocked(tensor.dtype)) return "mixed";
    if (!is_float(tensor.dtype)) continue;
    const std::string name = tensor.dtype == Dtype::kF32 ? "f32" : tensor.dtype == Dtype::kBF16 ? "bf16" : "f16";
    if (!summary.empty() && summary != name) return "mixed";
    summary = name;
  }
  return summary.empty() ? "mixed" : summary;
}

std::string Checkpoint::file_of(const TensorInfo* tensor) const {
  if (tensor != nullptr) return files_[tensor->file].display;
  return files_.size() == 1 ? files_[0].display : path_;
}

}  // namespace sida
