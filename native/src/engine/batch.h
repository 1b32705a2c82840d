#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/predicted_routing.h"
#include "ops/pick_tokens.h"

namespace sida {

/// Stands for no parent.
inline constexpr int32_t kNoParent = -1;

/// A token to pick after a row of the pass.
struct Pick {
  int32_t row;
  Sampling sampling;
  uint32_t top = 0;  ///< most likely tokens to name beside it
};

/// The log-probability wanted of `token` after a row of the pass.
struct TokenQuery {
  int32_t row;
  int32_t token;
};

/// One pass over a ragged batch: any mix of chunks of prompts and single tokens of one stack. Tokens are appended to
/// their sequences, which begin to exist when they are first named. A sequence's parent, looked at then alone, is a
/// sequence of the stack before, which it attends across to, or one of its own stack, which it continues: it then
/// begins with the parent's tokens, whose pages both own.
struct Batch {
  size_t stack = 0;
  std::span<const int32_t> sequences;  ///< (S): ids chosen by the caller
  std::span<const int32_t> parents;    ///< (S), kNoParent: none; empty: none has one
  std::span<const int32_t> offsets;    ///< (S + 1): first 0, last the token count
  std::span<const int32_t> tokens;
  std::span<const Pick> picks;             ///< rows ascending; last stack only
  std::span<const TokenQuery> queries;     ///< rows ascending; last stack only
  std::span<const int32_t> logit_rows;     ///< rows whose logits are wanted whole, ascending; last stack only
  /// Optional: where the tokens go, in place of the model's routers.
  PredictedRouting routing = {};
  /// Layers stream as wholes: each takes all its experts.
  bool whole_layers = false;
};

/// Where a pass puts its answers; null or empty where not wanted.
struct BatchOutput {
  std::span<PickedToken> picked;      ///< (picks)
  std::span<RankedToken> top;         ///< (Σ picks' top), pick by pick
  std::span<double> query_logprobs;   ///< (queries)
  float* logits = nullptr;            ///< (logit_rows, vocab)
  float* hidden_states = nullptr;     ///< (tokens, width)
  float* router_logits = nullptr;     ///< (MoE layers of the stack, tokens, experts)
  uint16_t* dispatch = nullptr;       ///< (MoE layers of the stack, tokens, top_k or routing.k)
  uint8_t* found = nullptr;           ///< (MoE layers of the stack, experts)
};

}  // namespace sida
