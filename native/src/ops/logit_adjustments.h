#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sida {

/// A token of a sequence, once for all its places.
struct SeenToken {
  int32_t id;
  uint32_t generated;  ///< times that it was generated; 0: only the prompt has it
};

struct TokenBias {
  int32_t id;
  double bias;
};

/// What a request changes in the model's logits before a token is picked. Each token appears at most once in `seen` and
/// in `biases`. The caller keeps all values finite and the ids within the vocabulary.
struct LogitAdjustments {
  std::span<const SeenToken> seen;
  std::span<const TokenBias> biases;
  double presence = 0;    ///< taken from the logit of each generated token
  double frequency = 0;   ///< taken from it once for each time that it was generated
  double repetition = 1;  ///< above 0: divides positive logits of all seen tokens, multiplies the others

  bool empty() const { return seen.empty() && biases.empty(); }
};

/// A copy of `logits` (vocab), which are finite, with the adjustments: first biases, then `repetition`, then
/// `frequency` and `presence`. Each logit is computed in float64 and rounded once, and stays within the finite floats.
std::vector<float> adjusted_logits(std::span<const float> logits, const LogitAdjustments& adjustments);

}  // namespace sida
