#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/function_ref.h"
#include "core/thread_pool.h"
#include "predictor/token_embedding.h"

namespace sida {

/// Products of tokens' embeddings with a weight matrix, (width) each. Each is computed when its token is first seen.
/// One thread may change them at a time.
class TokenProducts {
 public:
  explicit TokenProducts(size_t width) : width_(width) {}

  /// Computes the missing products of `tokens` on the pool's threads. `multiply` sets out (rows, width) from the
  /// embeddings x (rows, d_model). Throws io_error where an embedding cannot be read; none of the products is then
  /// kept.
  void add(std::span<const int32_t> tokens, const TokenEmbedding& embedding,
           FunctionRef<void(const float* x, size_t rows, float* out)> multiply, ThreadPool* pool);

  /// The token must have been added.
  const float* of(int32_t token) const { return products_.find(token)->second.data(); }
  /// Bytes held.
  size_t bytes() const;

 private:
  size_t width_;
  std::unordered_map<int32_t, std::vector<float>> products_;
};

}  // namespace sida
