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

/// A safetensors file of these tensors, its data aligned to 64 bytes. Names must be plain text without
/// quotes, backslashes and control characters.
std::string safetensors_bytes(std::span<const SafetensorsTensor> tensors);

/// Writes a file of that name whole or not at all: to a temporary neighbour, synced, renamed. Throws
/// io_error.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace sida
