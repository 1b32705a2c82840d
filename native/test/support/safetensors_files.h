#pragma once

#include "checkpoint/safetensors_file.h"
#include "support/safetensors_builder.h"
#include "support/test.h"

namespace sida::testing {

inline std::string four_floats() { return std::string(16, '\1'); }

/// Two tensors, [2, 2] and [4], 32 bytes of data.
inline std::string sound_file() {
  return build_safetensors({{"a", "F32", {2, 2}, four_floats()}, {"b", "F32", {4}, four_floats()}});
}

/// A file of one tensor "t" over `data_bytes` bytes.
inline std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                              size_t data_bytes = 16) {
  return with_header("{\"t\":" + entry(dtype, shape, offsets) + "}", std::string(data_bytes, '\0'));
}

/// A file of two tensors "t" and "u" of four floats each over `data_bytes` bytes.
inline std::string two_tensors(const std::string& first_offsets, const std::string& second_offsets,
                               size_t data_bytes = 32) {
  return with_header(
      "{\"t\":" + entry("F32", "[4]", first_offsets) + ",\"u\":" + entry("F32", "[4]", second_offsets) + "}",
      std::string(data_bytes, '\0'));
}

/// A file of one byte with this JSON as its metadata.
inline std::string with_metadata(const std::string& value) {
  return with_header("{\"__metadata__\":" + value + ",\"t\":" + entry("U8", "[1]", "[0,1]") + "}", "x");
}

/// "[1,1,…]" with `count` dimensions.
inline std::string shape_of_ones(int count) {
  std::string shape = "[1";
  for (int i = 1; i < count; ++i) shape += ",1";
  return shape + "]";
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& bytes) : path_(directory_.path() + "/m.safetensors") {
    write_file(path_, bytes);
  }
  const std::string& path() const { return path_; }
  SafetensorsFile open() const { return SafetensorsFile::open(path_, "m.safetensors"); }

 private:
  TempDir directory_;
  std::string path_;
};

}  // namespace sida::testing
