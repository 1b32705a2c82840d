#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "predictor/predictor_network.h"
#include "predictor/token_embedding.h"

namespace sida {

/// Token sequences, one after the other. Each sequence's context is the encoder tokens that it belongs to; a predictor
/// without summaries ignores it.
struct TokenInput {
  std::span<const int32_t> tokens;
  std::span<const int32_t> offsets;          ///< (sequences + 1), first 0, last the number of tokens
  std::span<const int32_t> context_tokens;   ///< with a summary
  std::span<const int32_t> context_offsets;  ///< (sequences + 1)

  size_t sequences() const { return offsets.size() - 1; }
  size_t length(size_t sequence) const { return static_cast<size_t>(offsets[sequence + 1] - offsets[sequence]); }
  std::span<const int32_t> context(size_t sequence) const;

  /// Throws invalid_request, with the numbers.
  void check(size_t vocab, bool summary) const;
};

/// Throw invalid_request where a token is outside the vocabulary, or where the offsets do not rise from 0 to `count` in
/// `sequences` steps.
void check_tokens(const char* name, std::span<const int32_t> tokens, size_t vocab);
void check_offsets(const char* name, std::span<const int32_t> offsets, size_t sequences, size_t count);

/// out (width) = mean of the rows (width) of `ids`; zero for no ids. A row is read before the next one is asked for.
void mean_of_rows(std::span<const int32_t> ids, size_t width, FunctionRef<const float*(int32_t id)> row_of, float* out);

/// The embeddings of a checked input, for a trainer. Its buffers are reused from batch to batch.
class EmbeddedBatch {
 public:
  /// The result is valid until the next call. Throws io_error where the embedding cannot be read.
  SequenceBatch assign(const TokenInput& input, const TokenEmbedding& embedding, bool summary);

 private:
  AlignedFloats x_;
  AlignedFloats summaries_;
  AlignedFloats row_;
  std::vector<uint32_t> lengths_;
};

}  // namespace sida
