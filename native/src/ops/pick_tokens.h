#pragma once

#include <cstdint>
#include <span>

namespace sida {

/// How one token is picked from a row of logits. What is out of these ranges is the caller's mistake.
struct Sampling {
  /// At least 0. 0: the most likely token, the lowest id on ties; all else is ignored.
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

/// Picks from `logits` (vocab). The answer depends on the arguments alone, to the last bit on every machine.
/// Logits are divided by the temperature. Of the tokens in order of descending probability, ties by id, top_k
/// leaves the first top_k, then top_p leaves the fewest whose probability among those reaches top_p, then
/// min_p takes its tokens out; the most likely token always stays. Of what is left one is drawn. `top`, at
/// most vocab, receives the most likely tokens of the model's distribution, most likely first, ties by id.
/// Throws nonfinite_output, naming token and value, where a logit is NaN or infinite.
PickedToken pick_token(std::span<const float> logits, const Sampling& sampling, std::span<RankedToken> top);

/// out[i] = the log-probability of token ids[i] under `logits` (vocab). Throws nonfinite_output.
void token_logprobs(std::span<const float> logits, std::span<const int32_t> ids, std::span<double> out);

}  // namespace sida
