#include "predictor/token_input.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace sida {
namespace {

Error refusal(const std::string& message, double expected, double found) {
  return Error("invalid_request", message, {{"expected", expected}, {"found", found}});
}

}  // namespace

void check_tokens(const char* name, std::span<const int32_t> tokens, size_t vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<size_t>(tokens[i]) < vocab) continue;
    throw refusal("token id " + std::to_string(tokens[i]) + " at position " + std::to_string(i) + " of \"" + name +
                      "\" is outside the vocabulary of " + std::to_string(vocab),
                  static_cast<double>(vocab), tokens[i]);
  }
}

void check_offsets(const char* name, std::span<const int32_t> offsets, size_t sequences, size_t count) {
  if (offsets.size() != sequences + 1) {
    throw refusal("expected \"" + std::string(name) + "\" to hold " + std::to_string(sequences + 1) +
                      " offsets, found " + std::to_string(offsets.size()),
                  static_cast<double>(sequences + 1), static_cast<double>(offsets.size()));
  }
  const bool ends = offsets.front() == 0 && static_cast<size_t>(offsets.back()) == count;
  if (ends && std::is_sorted(offsets.begin(), offsets.end())) return;
  throw refusal("expected \"" + std::string(name) + "\" to rise from 0 to the " + std::to_string(count) +
                    " tokens, found " + std::to_string(offsets.front()) + " to " + std::to_string(offsets.back()),
                static_cast<double>(count), offsets.back());
}

std::span<const int32_t> TokenInput::context(size_t sequence) const {
  const auto begin = static_cast<size_t>(context_offsets[sequence]);
  return context_tokens.subspan(begin, static_cast<size_t>(context_offsets[sequence + 1]) - begin);
}

void TokenInput::check(size_t vocab, bool summary) const {
  if (offsets.empty()) throw refusal("expected \"offsets\" to hold 1 offset at least, found none", 1, 0);
  check_offsets("offsets", offsets, sequences(), tokens.size());
  check_tokens("tokens", tokens, vocab);
  if (!summary) return;
  check_offsets("contextOffsets", context_offsets, sequences(), context_tokens.size());
  check_tokens("contextTokens", context_tokens, vocab);
}

void mean_of_rows(std::span<const int32_t> ids, size_t width, FunctionRef<const float*(int32_t id)> row_of,
                  float* out) {
  std::fill_n(out, width, 0.0f);
  if (ids.empty()) return;
  for (const int32_t id : ids) {
    const float* row = row_of(id);
    for (size_t i = 0; i < width; ++i) out[i] += row[i];
  }
  const float scale = 1.0f / static_cast<float>(ids.size());
  for (size_t i = 0; i < width; ++i) out[i] *= scale;
}

SequenceBatch EmbeddedBatch::assign(const TokenInput& input, const TokenEmbedding& embedding, bool summary) {
  const size_t width = embedding.d_model();
  float* x = grow(&x_, input.tokens.size() * width);
  for (size_t i = 0; i < input.tokens.size(); ++i) {
    embedding.read(static_cast<size_t>(input.tokens[i]), 1, x + i * width);
  }
  lengths_.clear();
  for (size_t s = 0; s < input.sequences(); ++s) lengths_.push_back(static_cast<uint32_t>(input.length(s)));
  if (!summary) return {x, lengths_};
  float* row = grow(&row_, width);
  const auto row_of = [&](int32_t id) {
    embedding.read(static_cast<size_t>(id), 1, row);
    return row;
  };
  float* summaries = grow(&summaries_, input.sequences() * width);
  for (size_t s = 0; s < input.sequences(); ++s) {
    mean_of_rows(input.context(s), width, row_of, summaries + s * width);
  }
  return {x, lengths_, summaries};
}

}  // namespace sida
