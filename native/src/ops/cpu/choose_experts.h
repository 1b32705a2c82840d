#pragma once

#include <cstddef>
#include <cstdint>

#include "spec/spec.h"

namespace sida {

/// The router's logits of one token, which choose_experts() overwrites.
struct TokenLogits {
  float* logits;
  size_t experts;
  const float* correction;  ///< (experts), added to the scores for the choice; null: none
  float* scratch;           ///< (experts); needed where adjusts_choice(spec)
};

/// Whether experts are chosen by other numbers than their scores.
constexpr bool adjusts_choice(const RouterSpec& spec) { return spec.corrected || spec.groups.count > 1; }

/// Writes a token's spec.top_k experts, in descending order of their scores, and the factors of their outputs.
/// Where a logit is NaN or its score is, these are experts 0 to top_k - 1 with factors of NaN.
void choose_experts(const TokenLogits& token, const RouterSpec& spec, uint16_t* expert, float* alpha);

}  // namespace sida
