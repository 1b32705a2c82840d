#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace sida::testing {

struct BuiltTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
};

inline std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

inline std::string length_prefix(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes;
}

inline std::string with_header(const std::string& header, const std::string& data) {
  return length_prefix(header.size()) + header + data;
}

// A sound safetensors file.
inline std::string build_safetensors(const std::vector<BuiltTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const BuiltTensor& tensor : tensors) {
    std::string shape;
    for (const uint64_t d : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    const size_t begin = data.size();
    data += tensor.data;
    header +=
        ",\"" + tensor.name + "\":" +
        entry(tensor.dtype, "[" + shape + "]", "[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]");
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  return with_header(header, data);
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace sida::testing
