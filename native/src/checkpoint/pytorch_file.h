#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_info.h"
#include "core/file.h"

namespace sida {

/// An open file that torch.save has written of a state dict: a zip archive of a pickle and of storages. Its tensors
/// were checked: contiguous, in storages whose sizes follow from their elements. Tensors may share data.
class PytorchFile {
 public:
  /// Opens the file as open_model_file does. Throws io_error or checkpoint_invalid.
  static PytorchFile open(const std::string& path);

  const File& file() const { return file_; }
  File take_file() { return std::move(file_); }
  const std::string& display() const { return display_; }
  /// In the order of the state dict.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::vector<TensorInfo> take_tensors() { return std::move(tensors_); }

 private:
  PytorchFile(File file, std::string display) : file_(std::move(file)), display_(std::move(display)) {}
  void read_tensors();

  File file_;
  std::string display_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace sida
