#include "ops/cpu/choose_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/cpu/kernels.h"

namespace sida {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

/// The sum of the `best` largest of `count` scores, which are added in descending order.
float group_score(const float* scores, size_t count, size_t best) {
  float sum = 0, last = std::numeric_limits<float>::infinity();
  size_t taken = 0;
  while (taken < best) {
    // The next smaller score, and how often it occurs.
    float next = kOut;
    size_t equal = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!(scores[i] < last)) continue;
      if (scores[i] > next) {
        next = scores[i];
        equal = 1;
      } else if (scores[i] == next) {
        ++equal;
      }
    }
    if (equal == 0) return sum;
    for (; equal > 0 && taken < best; --equal, ++taken) sum += next;
    last = next;
  }
  return sum;
}

/// Puts the groups beyond the best `groups.kept` out of the choice; of equal ones the first are kept.
void drop_groups(float* scores, size_t experts, const ExpertGroups& groups) {
  const size_t size = experts / groups.count;
  const auto score_of = [&](size_t group) { return group_score(scores + group * size, size, groups.best); };
  uint64_t kept[kMaxExpertGroups / 64] = {};
  for (size_t n = 0; n < groups.kept; ++n) {
    size_t best = groups.count;
    float most = 0;
    for (size_t group = 0; group < groups.count; ++group) {
      if ((kept[group / 64] >> group % 64 & 1) != 0) continue;
      const float score = score_of(group);
      if (best < groups.count && !(score > most)) continue;
      best = group;
      most = score;
    }
    kept[best / 64] |= uint64_t{1} << best % 64;
  }
  for (size_t group = 0; group < groups.count; ++group) {
    if ((kept[group / 64] >> group % 64 & 1) == 0) std::fill_n(scores + group * size, size, kOut);
  }
}

/// The places of the `top_k` largest of the scores, in descending order, the first of equal ones.
void take_largest(const float* scores, size_t experts, size_t top_k, uint16_t* expert, float* taken) {
  size_t found = 0;
  for (size_t e = 0; e < experts; ++e) {
    const float score = scores[e];
    if (found == top_k && !(score > taken[found - 1])) continue;
    size_t at = found < top_k ? found++ : found - 1;
    for (; at > 0 && score > taken[at - 1]; --at) {
      taken[at] = taken[at - 1];
      expert[at] = expert[at - 1];
    }
    taken[at] = score;
    expert[at] = static_cast<uint16_t>(e);
  }
}

void scale_factors(const RouterSpec& spec, float* alpha) {
  if (spec.normalized) {
    float sum = 0;
    for (size_t i = 0; i < spec.top_k; ++i) sum += alpha[i];
    sum += spec.sum_floor;
    for (size_t i = 0; i < spec.top_k; ++i) alpha[i] /= sum;
  }
  if (spec.scale == 1) return;
  for (size_t i = 0; i < spec.top_k; ++i) alpha[i] *= static_cast<float>(spec.scale);
}

}  // namespace

void choose_experts(const TokenLogits& token, const RouterSpec& spec, uint16_t* expert, float* alpha) {
  float* scores = token.logits;
  const size_t experts = token.experts;
  const CpuKernels& kernels = cpu_kernels();
  if (spec.scores == RouterScores::kSoftmax) kernels.softmax(scores, experts, scores);
  if (spec.scores == RouterScores::kSigmoid) kernels.sigmoid(scores, experts);
  // A comparison with NaN is false, so that an expert of a NaN would only seem to be unlikely.
  const auto has_nan = [experts](const float* of) {
    return std::any_of(of, of + experts, [](float score) { return std::isnan(score); });
  };
  bool invalid = has_nan(scores);
  if (adjusts_choice(spec)) {
    for (size_t e = 0; e < experts; ++e) {
      token.scratch[e] = token.correction == nullptr ? scores[e] : scores[e] + token.correction[e];
    }
    invalid = invalid || has_nan(token.scratch);
    if (spec.groups.count > 1) drop_groups(token.scratch, experts, spec.groups);
    take_largest(token.scratch, experts, spec.top_k, expert, alpha);
    for (size_t i = 0; i < spec.top_k; ++i) alpha[i] = scores[expert[i]];
  } else {
    take_largest(scores, experts, spec.top_k, expert, alpha);
  }
  if (spec.scores == RouterScores::kSoftmaxOfChosen) kernels.softmax(alpha, spec.top_k, alpha);
  scale_factors(spec, alpha);
  if (!invalid) return;
  std::iota(expert, expert + spec.top_k, uint16_t{0});
  std::fill_n(alpha, spec.top_k, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace sida
