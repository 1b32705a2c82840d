#include "predictor/expert_ranking.h"

#include <algorithm>
#include <cmath>

#include "predictor/gate_functions.h"

namespace sida {
namespace {

constexpr size_t kLanes = 16;

float greatest(const float* x, size_t n) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, x[0]);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

// Σ e^(x - top). Not finite where an x is not: gate_exp() passes those on as NaN.
float sum_of_powers(const float* x, size_t n, float top) {
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += gate_exp(x[i + j] - top);
  }
  for (; i < n; ++i) lanes[0] += gate_exp(x[i] - top);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Keeps the k greatest in (ids, values), sorted, by insertion: k is small.
class BestFew {
 public:
  BestFew(size_t k, uint16_t* ids, float* values) : k_(k), ids_(ids), values_(values) {}

  bool takes(float x) const { return count_ < k_ || x > values_[k_ - 1]; }
  void add(uint16_t id, float x) {
    size_t place = count_ < k_ ? count_++ : k_ - 1;
    for (; place > 0 && values_[place - 1] < x; --place) {
      values_[place] = values_[place - 1];
      ids_[place] = ids_[place - 1];
    }
    values_[place] = x;
    ids_[place] = id;
  }

 private:
  size_t k_;
  uint16_t* ids_;
  float* values_;
  size_t count_ = 0;
};

}  // namespace

bool rank_experts(const float* logits, size_t n, size_t k, uint16_t* ids, float* probabilities) {
  const float top = greatest(logits, n);
  const float sum = sum_of_powers(logits, n, top);
  if (!std::isfinite(sum)) return false;
  BestFew best(k, ids, probabilities);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t end = std::min(i + kLanes, n);
    if (end - i == kLanes && !best.takes(greatest(logits + i, kLanes))) continue;
    for (size_t e = i; e < end; ++e) {
      if (best.takes(logits[e])) best.add(static_cast<uint16_t>(e), logits[e]);
    }
  }
  for (size_t i = 0; i < k; ++i) probabilities[i] = gate_exp(probabilities[i] - top) / sum;
  return true;
}

}  // namespace sida
