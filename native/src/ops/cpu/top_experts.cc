#include "ops/cpu/top_experts.h"

namespace sida {

void top_experts(const float* probabilities, size_t experts, const RouterSpec& spec, uint16_t* expert, float* alpha) {
  size_t found = 0;
  for (size_t e = 0; e < experts; ++e) {
    const float p = probabilities[e];
    if (found == spec.top_k && !(p > alpha[found - 1])) continue;
    size_t at = found < spec.top_k ? found++ : found - 1;
    for (; at > 0 && p > alpha[at - 1]; --at) {
      alpha[at] = alpha[at - 1];
      expert[at] = expert[at - 1];
    }
    alpha[at] = p;
    expert[at] = static_cast<uint16_t>(e);
  }
  if (!spec.normalized) return;
  float sum = 0;
  for (size_t i = 0; i < spec.top_k; ++i) sum += alpha[i];
  for (size_t i = 0; i < spec.top_k; ++i) alpha[i] /= sum;
}

}  // namespace sida
