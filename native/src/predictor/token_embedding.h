#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/file.h"
#include "predictor/matrix_product.h"
#include "weights/weight_format.h"

namespace sida {

/// The name of the one tensor of an embedding file.
inline constexpr const char* kEmbeddingTensor = "embedding.weight";

/// The token embedding of a model, (vocab, d_model) float32 rows. Where each stack has its own, the first stack's.
/// Const methods may run on several threads.
class TokenEmbedding {
 public:
  /// Holds `values`, (vocab, d_model).
  TokenEmbedding(size_t vocab, size_t d_model, AlignedFloats values)
      : vocab_(vocab), d_model_(d_model), values_(std::move(values)) {}
  /// From the dense file of a packed model, which stays open: rows are read when they are asked for. Throws
  /// pack_invalid or io_error.
  static TokenEmbedding from_pack(const std::string& directory);
  /// From a Hugging Face checkpoint. Throws checkpoint_invalid or io_error.
  static TokenEmbedding from_checkpoint(const std::string& directory);
  /// From a file that save() wrote. Throws checkpoint_invalid or io_error.
  static TokenEmbedding from_file(const std::string& path);

  size_t vocab() const { return vocab_; }
  size_t d_model() const { return d_model_; }
  /// Overwrites out (count, d_model) with rows from `first` on. Throws io_error where a pack cannot be read.
  void read(size_t first, size_t count, float* out) const;

  /// Writes a safetensors file whole or not at all. Throws io_error.
  void save(const std::string& path) const;

 private:
  struct Panels {
    File file;
    uint64_t offset;
    WeightFormat format;
  };

  size_t vocab_;
  size_t d_model_;
  AlignedFloats values_;          ///< empty with panels
  std::optional<Panels> panels_;  ///< of a pack
};

}  // namespace sida
