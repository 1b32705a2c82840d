#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_info.h"
#include "core/file.h"
#include "core/json.h"

namespace sida {

/// Longest header that is read; the limit of the reference implementation.
inline constexpr uint32_t kMaxHeaderBytes = 100'000'000;

/// Most objects in a header: the header itself, its metadata, and one for each tensor. All 2,048 experts of Switch-C's
/// 15 layers are 61 thousand tensors.
inline constexpr size_t kMaxHeaderObjects = 1 << 18;

/// An open safetensors file whose header was checked: known dtypes, sizes that follow from the shapes, data
/// that covers the file without hole, overlap or remainder.
class SafetensorsFile {
 public:
  /// Opens the file as open_model_file does. Throws io_error or checkpoint_invalid. `display` names the file in errors;
  /// the path does where it is empty.
  static SafetensorsFile open(const std::string& path, const std::string& display = "");

  const File& file() const { return file_; }
  File take_file() { return std::move(file_); }
  const std::string& display() const { return display_; }
  uint64_t header_bytes() const { return header_bytes_; }
  /// In the order of the header.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::vector<TensorInfo> take_tensors() { return std::move(tensors_); }

 private:
  SafetensorsFile(File file, std::string display) : file_(std::move(file)), display_(std::move(display)) {}

  File file_;
  std::string display_;
  uint64_t header_bytes_ = 0;
  std::vector<TensorInfo> tensors_;
};

/// Checks a header (the JSON alone) in front of `data_bytes` of data and gives its tensors, in its order, with
/// offsets from the beginning of the file. Throws checkpoint_invalid.
std::vector<TensorInfo> parse_safetensors_header(const JsonInput& header, uint64_t data_bytes, const std::string& file);

}  // namespace sida
