#include "predictor/expert_ranking.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/cpu/kernels.h"
#include "predictor/gate_functions.h"

namespace sida {
namespace {

constexpr size_t kLanes = 16;

// Converts floats to integers of the same order, and back: a comparison of floats may trap, and a loop that contains
// one is not vectorized.
[[gnu::always_inline]] inline int32_t ordered(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
[[gnu::always_inline]] inline float unordered(int32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}

[[gnu::always_inline]] inline float greatest(const float* x, size_t n) {
  int32_t lanes[kLanes];
  std::fill_n(lanes, kLanes, ordered(x[0]));
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const int32_t key = ordered(x[i + j]);
      lanes[j] = key > lanes[j] ? key : lanes[j];
    }
  }
  for (; i < n; ++i) lanes[0] = std::max(lanes[0], ordered(x[i]));
  return unordered(*std::max_element(lanes, lanes + kLanes));
}

// Σ e^(sharpness · (x - top)). Not finite where an x is not, because gate_exp() returns NaN for it.
[[gnu::always_inline]] inline float sum_of_powers(const float* x, size_t n, float top, float sharpness) {
  float lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += gate_exp((x[i + j] - top) * sharpness);
  }
  for (; i < n; ++i) lanes[0] += gate_exp((x[i] - top) * sharpness);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Keeps the k greatest in (ids, values), sorted by insertion, because k is small.
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

[[gnu::always_inline]] inline bool rank_body(const float* logits, size_t n, size_t k, ExpertSharpness sharpness,
                                             uint16_t* ids, float* alpha, float* chance) {
  const float top = greatest(logits, n);
  const float alpha_sum = sum_of_powers(logits, n, top, sharpness.alpha);
  const float chance_sum = chance != nullptr ? sum_of_powers(logits, n, top, sharpness.chance) : 1.0f;
  if (!std::isfinite(alpha_sum) || !std::isfinite(chance_sum)) return false;
  BestFew best(k, ids, alpha);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t end = std::min(i + kLanes, n);
    if (end - i == kLanes && !best.takes(greatest(logits + i, kLanes))) continue;
    for (size_t e = i; e < end; ++e) {
      if (best.takes(logits[e])) best.add(static_cast<uint16_t>(e), logits[e]);
    }
  }
  for (size_t i = 0; i < k; ++i) {
    const float below = alpha[i] - top;
    alpha[i] = gate_exp(below * sharpness.alpha) / alpha_sum;
    if (chance != nullptr) chance[i] = gate_exp(below * sharpness.chance) / chance_sum;
  }
  return true;
}

// The same source for each instruction set, as in lstm_cell.cc, so the results have the same bits.
#define SIDA_RANK(name, attributes)                                                                              \
  attributes bool rank_##name(const float* logits, size_t n, size_t k, ExpertSharpness sharpness, uint16_t* ids, \
                              float* alpha, float* chance) {                                                     \
    return rank_body(logits, n, k, sharpness, ids, alpha, chance);                                               \
  }
SIDA_RANK(plain, )
#if defined(__x86_64__)
SIDA_RANK(avx2, [[gnu::target("avx2")]])
SIDA_RANK(avx512, [[gnu::target("avx512f")]])
#endif
#undef SIDA_RANK

}  // namespace

RankExperts* rank_experts_named(const char* isa) {
#if defined(__x86_64__)
  if (std::strncmp(isa, "avx512", 6) == 0) return rank_avx512;
  if (std::strcmp(isa, "avx2") == 0) return rank_avx2;
#endif
  (void)isa;
  return rank_plain;
}

bool rank_experts(const float* logits, size_t n, size_t k, ExpertSharpness sharpness, uint16_t* ids, float* alpha,
                  float* chance) {
  static RankExperts* const rank = rank_experts_named(cpu_kernels().isa);
  return rank(logits, n, k, sharpness, ids, alpha, chance);
}

}  // namespace sida
