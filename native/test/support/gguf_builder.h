#pragma once

#include "support/test.h"

namespace sida::testing {

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline std::string gguf_text(std::string_view text) { return bytes_of<uint64_t>(text.size()) + std::string(text); }

/// A GGUF file in memory. Tests change what `build` would write to damage it.
struct GgufBuilder {
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dimensions;  ///< the first is that of the numbers side by side
    uint32_t type = 0;
    std::string data;
    std::optional<uint64_t> offset = {};  ///< of another place than the next one
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::string entries;
  uint64_t entry_count = 0;
  std::vector<Tensor> tensors;
  std::optional<uint64_t> tensor_count = {};

  GgufBuilder& raw(std::string_view key, uint32_t type, const std::string& value) {
    entries += gguf_text(key) + bytes_of(type) + value;
    ++entry_count;
    return *this;
  }
  GgufBuilder& u32(std::string_view key, uint32_t value) { return raw(key, 4, bytes_of(value)); }
  GgufBuilder& u64(std::string_view key, uint64_t value) { return raw(key, 10, bytes_of(value)); }
  GgufBuilder& f32(std::string_view key, float value) { return raw(key, 6, bytes_of(value)); }
  GgufBuilder& text(std::string_view key, std::string_view value) { return raw(key, 8, gguf_text(value)); }
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string all = bytes_of<uint32_t>(8) + bytes_of<uint64_t>(values.size());
    for (const std::string& value : values) all += gguf_text(value);
    return raw(key, 9, all);
  }
  /// A tensor of zeros of F32.
  GgufBuilder& zeros(const std::string& name, std::vector<uint64_t> dimensions) {
    uint64_t count = 4;
    for (const uint64_t dimension : dimensions) count *= dimension;
    tensors.push_back({name, std::move(dimensions), 0, std::string(count, '\0')});
    return *this;
  }

  std::string build() const {
    std::string head =
        magic + bytes_of(version) + bytes_of(tensor_count.value_or(tensors.size())) + bytes_of(entry_count) + entries;
    std::string data;
    for (const Tensor& tensor : tensors) {
      head += gguf_text(tensor.name) + bytes_of(static_cast<uint32_t>(tensor.dimensions.size()));
      for (const uint64_t dimension : tensor.dimensions) head += bytes_of(dimension);
      head += bytes_of(tensor.type) + bytes_of<uint64_t>(tensor.offset.value_or(data.size()));
      data += padded(tensor.data);
    }
    return padded(head) + data;
  }

 private:
  std::string padded(std::string bytes) const {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
    return bytes;
  }
};

}  // namespace sida::testing
