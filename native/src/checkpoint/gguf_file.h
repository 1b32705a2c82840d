#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/tensor_info.h"
#include "core/file.h"

namespace sida {

/// The types of a GGUF file's metadata, by their numbers in it.
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
};

/// Bytes of a value; 0 of texts and arrays, which say their length.
size_t gguf_type_bytes(GgufType type);

/// Where a value of the metadata lies in its file.
struct GgufEntry {
  std::string key;
  GgufType type = GgufType::kU8;  ///< of an array its elements'
  bool array = false;
  uint64_t count = 1;   ///< of an array's elements
  uint64_t offset = 0;  ///< of the first value
  uint64_t bytes = 0;   ///< of all values
};

/// Most bytes in front of the tensors' data. The metadata of vocabularies of 262,000 tokens takes 16 MB.
inline constexpr uint64_t kMaxGgufHead = 48 << 20;
inline constexpr uint64_t kMaxGgufEntries = 1 << 16;
/// Most tensors of a file: an old file of 128 layers has 1,000 for the experts of each.
inline constexpr uint64_t kMaxGgufTensors = 1 << 17;

/// An open GGUF file, version 2 or 3, little-endian, whose head was checked: types that are known, each key and tensor
/// once, tensors of types that are read, whose data fills the file without hole, overlap or remainder.
class GgufFile {
 public:
  /// Opens the file as open_model_file does. Throws io_error or checkpoint_invalid.
  static GgufFile open(const std::string& directory, const std::string& name);

  const File& file() const { return file_; }
  File take_file() { return std::move(file_); }
  const std::string& display() const { return display_; }
  /// Ordered by key.
  const std::vector<GgufEntry>& entries() const { return entries_; }
  /// Null where there is no such key.
  const GgufEntry* find(std::string_view key) const;
  /// In the order of the file; shapes have rows before columns and no dimensions of 1 in front.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  std::vector<TensorInfo> take_tensors() { return std::move(tensors_); }

  /// The bytes of an entry's values; a text follows its length of eight bytes.
  std::string read(const GgufEntry& entry) const;
  /// Visits the texts of an entry of texts, one at a time.
  void for_each_text(const GgufEntry& entry, const std::function<void(uint64_t, std::string_view)>& visit) const;

 private:
  GgufFile(File file, std::string display) : file_(std::move(file)), display_(std::move(display)) {}

  File file_;
  std::string display_;
  std::vector<GgufEntry> entries_;
  std::vector<TensorInfo> tensors_;
};

/// GGUF knows no rank: dimensions of 1 in front of a shape, all but the last one, are dropped.
std::vector<uint64_t> without_leading_ones(std::vector<uint64_t> shape);

}  // namespace sida
