#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "predictor/matrix_product.h"

namespace sida {

/// Width of an attention head.
inline constexpr size_t kHeadWidth = 16;
/// Buckets of relative positions, as T5 has them, over distances below kBucketDistance.
inline constexpr size_t kPositionBuckets = 32;
inline constexpr size_t kBucketDistance = 128;

/// Keys and values of one sequence, in the page layout of AttentionTask. Grows token by token.
class HeadPages {
 public:
  /// A sequence from its beginning.
  void begin(size_t heads);
  /// Appends a token: key and value (heads · kHeadWidth).
  void append(const float* key, const float* value);

  size_t heads() const { return heads_; }
  size_t length() const { return length_; }
  const float* key_page(size_t page, size_t head) const { return keys_.data() + at(page, head); }
  const float* value_page(size_t page, size_t head) const { return values_.data() + at(page, head); }
  size_t bytes() const { return (keys_.capacity() + values_.capacity()) * sizeof(float); }

 private:
  size_t at(size_t page, size_t head) const;

  size_t heads_ = 0;
  size_t length_ = 0;
  AlignedFloats keys_;
  AlignedFloats values_;
};

/// The bias of each head's scores by the distance key - query.
class PositionDiagonals {
 public:
  /// From `table` (heads, kPositionBuckets), for sequences of up to `longest` tokens.
  void assign(const float* table, size_t heads, size_t longest);

  size_t longest() const { return longest_; }
  /// Points at distance 0.
  const float* head(size_t head) const { return values_.data() + head * stride_ + longest_; }
  /// Points at the bucket of distance 0.
  const uint8_t* buckets() const { return buckets_.data() + longest_; }
  size_t bytes() const { return values_.capacity() * sizeof(float); }

 private:
  size_t longest_ = 0;
  size_t stride_ = 0;
  AlignedFloats values_;
  std::vector<uint8_t> buckets_;
};

struct HeadAttentionScratch {
  AlignedFloats scores;
  AlignedFloats probabilities;  ///< (tokens, tokens)
  AlignedFloats slopes;         ///< (tokens, tokens)
  AlignedFloats rows;           ///< 7 of (tokens, kHeadWidth)
  AlignedFloats panels;
  std::vector<const std::byte*> key_pages;
  std::vector<const std::byte*> value_pages;
  ProductScratch product;

  size_t bytes() const;
};

/// Overwrites out (rows, heads · kHeadWidth) with softmax(q · kᵀ + bias) · v of the rows at positions first, first + 1,
/// … Causal: a row sees the keys up to its own, otherwise all keys. Rows of q are `q_stride` apart.
void head_attention(const HeadPages& pages, const PositionDiagonals& bias, bool causal, const float* q, size_t q_stride,
                    size_t first, size_t rows, float* out, HeadAttentionScratch* scratch);

/// The gradients of a whole sequence, whose queries, keys and values are qkv (tokens, 3 · heads · kHeadWidth).
/// Overwrites (=) dqkv, same shape; adds (+=) to dtable (heads, kPositionBuckets).
void head_attention_backward(const float* qkv, const PositionDiagonals& bias, bool causal, size_t tokens, size_t heads,
                             const float* dout, float* dqkv, float* dtable, HeadAttentionScratch* scratch);

}  // namespace sida
