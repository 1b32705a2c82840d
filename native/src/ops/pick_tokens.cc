#include "ops/pick_tokens.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/portable_math.h"
#include "ops/cpu/kernels.h"
#include "ops/descending_order.h"
#include "ops/random_numbers.h"

namespace sida {

namespace {

// The name of a value that is not finite, as JavaScript writes it.
std::string name_of(float value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

struct Extremes {
  float most;
  float least;
  size_t best;  // The most likely token, the lowest id on ties.
};

// Throws nonfinite_output.
Extremes finite_extremes(std::span<const float> logits) {
  if (logits.empty()) throw Error("internal", "a token is picked from no logits. This is a bug.");
  // Several lanes, because the compiler may not split one running maximum into several. A lane that meets a NaN or an
  // infinity ends with a sum other than 0.
  constexpr size_t kLanes = 16;
  float most[kLanes], least[kLanes], broken[kLanes] = {};
  std::fill_n(most, kLanes, logits[0]);
  std::fill_n(least, kLanes, logits[0]);
  const auto take = [&](size_t lane, float x) {
    most[lane] = x > most[lane] ? x : most[lane];
    least[lane] = x < least[lane] ? x : least[lane];
    broken[lane] += x * 0;
  };
  size_t start = 0;
  for (; start + kLanes <= logits.size(); start += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, logits[start + lane]);
  }
  for (size_t id = start; id < logits.size(); ++id) take(id - start, logits[id]);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (broken[lane] == 0) continue;
    const auto found = std::find_if_not(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
    const auto id = found - logits.begin();
    throw Error("nonfinite_output",
                "The model gave " + name_of(*found) + " as the logit of token " + std::to_string(id),
                {{"token", static_cast<double>(id)}});
  }
  Extremes row;
  row.most = *std::max_element(most, most + kLanes);
  row.least = *std::min_element(least, least + kLanes);
  row.best = static_cast<size_t>(std::find(logits.begin(), logits.end(), row.most) - logits.begin());
  return row;
}

// log Σ exp(logits): a logit minus this is its log-probability. Summed in order of the ids, because another order would
// change the bits of answers.
double log_sum_exp(std::span<const float> logits, double most) {
  constexpr size_t kBlock = 256;
  double power[kBlock];
  double sum = 0;
  for (size_t start = 0; start < logits.size(); start += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - start);
    for (size_t i = 0; i < count; ++i) power[i] = logits[start + i] - most;
    cpu_kernels().exp_nonpositive(power, count, power);
    for (size_t i = 0; i < count; ++i) sum += power[i];
  }
  return most + portable_log(sum);
}

void rank(std::span<const float> logits, double log_sum, std::span<RankedToken> top) {
  if (top.size() > logits.size()) {
    throw Error("internal", "the " + std::to_string(top.size()) + " most likely of " + std::to_string(logits.size()) +
                                " tokens are asked for. This is a bug.");
  }
  if (top.empty()) return;
  size_t found = 0;
  float lowest = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const float logit = logits[id];
    if (found == top.size() && !(logit > lowest)) continue;
    if (found < top.size()) ++found;
    size_t place = found - 1;
    for (; place > 0 && logit > logits[static_cast<size_t>(top[place - 1].id)]; --place) {
      top[place] = top[place - 1];
    }
    top[place] = {static_cast<int32_t>(id), logit - log_sum};
    lowest = logits[static_cast<size_t>(top[found - 1].id)];
  }
}

int32_t draw(std::span<const float> logits, const Extremes& row, const Sampling& sampling) {
  const double temperature = sampling.temperature;
  const DescendingOrder order(logits, row.most, row.least, temperature);
  size_t kept = logits.size();
  if (sampling.top_k > 0) kept = std::min<size_t>(kept, sampling.top_k);
  if (sampling.top_p < 1) {
    const double wanted = order.mass_of_first(kept) * sampling.top_p;
    kept = order.shortest([&](size_t count, double mass) { return mass >= wanted || count >= kept; }).count;
  }
  if (sampling.min_p > 0) {
    const double farthest = portable_log(sampling.min_p) * temperature;
    const auto likely = std::count_if(logits.begin(), logits.end(),
                                      [&](float x) { return x - static_cast<double>(row.most) >= farthest; });
    kept = std::min(kept, static_cast<size_t>(likely));
  }
  const double target = order.mass_of_first(kept) * uniform_number(sampling.seed, sampling.position);
  return order.shortest([&](size_t count, double mass) { return mass > target || count >= kept; }).last;
}

size_t choose(std::span<const float> logits, const Extremes& row, const Sampling& sampling) {
  return sampling.temperature == 0 ? row.best : static_cast<size_t>(draw(logits, row, sampling));
}

// Chooses among the allowed tokens alone, whose order by id decides ties as it does among all.
size_t choose_allowed(std::span<const float> logits, const Sampling& sampling, TokenBitmap allowed) {
  if (allowed.size() != bitmap_words(logits.size())) {
    throw Error("internal", "a bitmap of " + std::to_string(allowed.size()) + " words for " +
                                std::to_string(logits.size()) + " tokens. This is a bug.");
  }
  std::vector<float> own;
  std::vector<size_t> ids;
  for (size_t word = 0; word < allowed.size(); ++word) {
    for (uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
      const size_t id = word * 32 + static_cast<size_t>(std::countr_zero(bits));
      if (id >= logits.size()) break;
      own.push_back(logits[id]);
      ids.push_back(id);
    }
  }
  if (ids.empty()) throw Error("internal", "a token is picked where none is allowed. This is a bug.");
  return ids[choose(own, finite_extremes(own), sampling)];
}

}  // namespace

PickedToken pick_token(std::span<const float> logits, const Sampling& sampling, std::span<RankedToken> top,
                       const LogitAdjustments& adjustments, TokenBitmap allowed) {
  Extremes row = finite_extremes(logits);
  const double log_sum = log_sum_exp(logits, row.most);
  rank(logits, log_sum, top);
  std::span<const float> offered = logits;
  std::vector<float> adjusted;
  if (!adjustments.empty()) {
    offered = adjusted = adjusted_logits(logits, adjustments);
    row = finite_extremes(offered);
  }
  const size_t id = allowed.empty() ? choose(offered, row, sampling) : choose_allowed(offered, sampling, allowed);
  return {static_cast<int32_t>(id), logits[id] - log_sum};
}

void token_logprobs(std::span<const float> logits, std::span<const int32_t> ids, std::span<double> out) {
  const double log_sum = log_sum_exp(logits, finite_extremes(logits).most);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= logits.size()) {
      throw Error("internal", "token " + std::to_string(ids[i]) + " of a vocabulary of " +
                                  std::to_string(logits.size()) + ". This is a bug.");
    }
    out[i] = logits[static_cast<size_t>(ids[i])] - log_sum;
  }
}

}  // namespace sida
