#include "ops/logit_adjustments.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace sida {
namespace {

float rounded(double logit) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kMost, kMost));
}

double penalized(double logit, const SeenToken& token, const LogitAdjustments& adjustments) {
  const double repeated = logit > 0 ? logit / adjustments.repetition : logit * adjustments.repetition;
  if (token.generated == 0) return repeated;
  return repeated - token.generated * adjustments.frequency - adjustments.presence;
}

}  // namespace

std::vector<float> adjusted_logits(std::span<const float> logits, const LogitAdjustments& adjustments) {
  std::vector<float> adjusted(logits.begin(), logits.end());
  std::unordered_map<int32_t, double> biases;
  for (const TokenBias& each : adjustments.biases) {
    biases.emplace(each.id, each.bias);
    float& logit = adjusted[static_cast<size_t>(each.id)];
    logit = rounded(logit + each.bias);
  }
  for (const SeenToken& token : adjustments.seen) {
    const auto id = static_cast<size_t>(token.id);
    const auto bias = biases.find(token.id);
    // Not from the biased float, so that a logit is rounded once.
    const double logit = bias == biases.end() ? logits[id] : logits[id] + bias->second;
    adjusted[id] = rounded(penalized(logit, token, adjustments));
  }
  return adjusted;
}

}  // namespace sida
