#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/pick_tokens.h"
#include "ops/predicted_routing.h"

namespace sida {

/// The parent id of a sequence without a parent.
inline constexpr int32_t kNoParent = -1;

/// A token to pick after a row of the pass.
struct Pick {
  int32_t row;
  Sampling sampling;
  uint32_t top = 0;  ///< most likely tokens to name beside it
  LogitAdjustments adjustments = {};
  TokenBitmap allowed = {};  ///< empty: all tokens
};

/// The log-probability wanted of `token` after a row of the pass.
struct TokenQuery {
  int32_t row;
  int32_t token;
};

/// One pass over a ragged batch: any mix of chunks of prompts and single tokens of one stack. Tokens are appended to
/// their sequences. A sequence begins when a batch first names it, and only then is its parent read. The parent is
/// either a sequence of the previous stack, which the new one cross-attends to, or one of the same stack, which the new
/// one continues: it then begins with the parent's tokens, and both own their pages.
struct Batch {
  size_t stack = 0;
  std::span<const int32_t> sequences;  ///< (S): ids chosen by the caller
  std::span<const int32_t> parents;    ///< (S), kNoParent: none; empty: none has one
  std::span<const int32_t> offsets;    ///< (S + 1): first 0, last the token count
  std::span<const int32_t> tokens;
  std::span<const Pick> picks;          ///< rows ascending; last stack only
  std::span<const TokenQuery> queries;  ///< rows ascending; last stack only
  std::span<const int32_t> logit_rows;  ///< rows whose logits are wanted whole, ascending; last stack only
  /// Optional: the experts of each token, in place of the model's routers.
  PredictedRouting routing = {};
  /// MoE layers after the running one whose experts are named ahead by their own routers; 0: none.
  size_t route_ahead = 0;
  /// Each layer takes all its experts, whether needed or not.
  bool whole_layers = false;
};

/// Where a pass writes its results; null or empty where not wanted. Passes with MoE layers need `dispatch` and `found`.
struct BatchOutput {
  std::span<PickedToken> picked;     ///< (picks)
  std::span<RankedToken> top;        ///< (Σ picks' top), pick by pick
  std::span<double> query_logprobs;  ///< (queries)
  float* logits = nullptr;           ///< (logit_rows, vocab)
  float* hidden_states = nullptr;    ///< (tokens, width)
  float* router_logits = nullptr;    ///< (MoE layers of the stack, tokens, experts)
  uint16_t* dispatch = nullptr;      ///< (MoE layers of the stack, tokens, top_k or routing.k)
  uint8_t* found = nullptr;          ///< (MoE layers of the stack, experts)
};

}  // namespace sida
