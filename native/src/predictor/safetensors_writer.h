#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sida {

/// A float32 tensor to be written.
struct SafetensorsTensor {
  std::string name;
  std::vector<uint64_t> shape;
  const float* data = nullptr;

  uint64_t elements() const;
};

/// The bytes of a safetensors file of these tensors, with data aligned to 64 bytes. Names must be plain text without
/// quotes, backslashes and control characters.
std::string safetensors_bytes(std::span<const SafetensorsTensor> tensors);

/// Writes a file whole or not at all: writes a temporary file beside it, syncs it and renames it. Throws io_error.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace sida
