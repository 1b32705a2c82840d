#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "predictor/matrix_product.h"

namespace sida {

/// The name of the one tensor of an embedding file.
inline constexpr const char* kEmbeddingTensor = "embedding.weight";

/// The token embedding of a model, (vocab, d_model) float32 rows. Where each stack has its own, the first stack's.
class TokenEmbedding {
 public:
  /// All zero.
  TokenEmbedding(size_t vocab, size_t d_model) : vocab_(vocab), d_model_(d_model), values_(vocab * d_model) {}
  /// From the dense file of a packed model. Throws pack_invalid or io_error.
  static TokenEmbedding from_pack(const std::string& directory);
  /// From a Hugging Face checkpoint. Throws checkpoint_invalid or io_error.
  static TokenEmbedding from_checkpoint(const std::string& directory);
  /// From a file that save() wrote. Throws checkpoint_invalid or io_error.
  static TokenEmbedding from_file(const std::string& path);

  size_t vocab() const { return vocab_; }
  size_t d_model() const { return d_model_; }
  const float* row(size_t token) const { return values_.data() + token * d_model_; }
  float* row(size_t token) { return values_.data() + token * d_model_; }

  /// Writes a safetensors file whole or not at all. Throws io_error.
  void save(const std::string& path) const;

 private:
  size_t vocab_;
  size_t d_model_;
  AlignedFloats values_;
};

}  // namespace sida
