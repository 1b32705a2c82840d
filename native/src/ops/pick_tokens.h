#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/logit_adjustments.h"

namespace sida {

/// How to pick one token from a row of logits. The caller must keep the values within these ranges.
struct Sampling {
  /// At least 0. 0: pick the most likely token, the lowest id on ties; other fields are ignored.
  float temperature = 0;
  float top_p = 1;     ///< In (0, 1].
  float min_p = 0;     ///< In [0, 1]: tokens below min_p · p(most likely) are out.
  uint32_t top_k = 0;  ///< 0: all.
  uint64_t seed = 0;
  uint64_t position = 0;  ///< Of the picked token in its sequence: the counter of the random number.
};

struct RankedToken {
  int32_t id;
  double logprob;
};

/// `logprob` is that of the model, before temperature and filters.
struct PickedToken {
  int32_t id;
  double logprob;
};

/// A set of tokens: bit t % 32 of word t / 32 stands for token t; (ceil(vocab / 32)). Empty: all tokens.
using TokenBitmap = std::span<const uint32_t>;

constexpr size_t bitmap_words(size_t vocab) { return (vocab + 31) / 32; }

/// Picks a token from `logits` (vocab). The result depends only on the arguments, to the last bit on every machine.
/// Logits are divided by the temperature and tokens ordered by descending probability, ties by id. top_k keeps the
/// first top_k tokens. top_p then keeps the fewest whose probability among those reaches top_p. min_p then removes its
/// tokens. The most likely token always stays, and one of the remaining tokens is drawn. `top`, at most vocab long,
/// receives the most likely tokens of the model's own distribution, most likely first, ties by id. The token is picked
/// from the adjusted logits and from the tokens of `allowed` alone, as if there were no others; it must hold one.
/// Log-probabilities are those of `logits`. Throws nonfinite_output, naming token and value, where a logit is NaN or
/// infinite.
PickedToken pick_token(std::span<const float> logits, const Sampling& sampling, std::span<RankedToken> top,
                       const LogitAdjustments& adjustments = {}, TokenBitmap allowed = {});

/// out[i] = the log-probability of token ids[i] under `logits` (vocab). Throws nonfinite_output.
void token_logprobs(std::span<const float> logits, std::span<const int32_t> ids, std::span<double> out);

}  // namespace sida
