#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "doctest/doctest.h"
#include "ops/cpu/kernels.h"
#include "predictor/expert_ranking.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

constexpr ExpertSharpness kSharpness{0.4f, 2.5f};
constexpr const char* kSets[] = {"scalar", "avx2", "avx512"};

TEST_CASE("expert ranking: the best k in order with their softmax, the same bits in every instruction set") {
  for (const size_t n : {1, 2, 7, 16, 17, 64, 128, 131}) {
    for (const size_t k : {size_t{1}, size_t{2}, size_t{5}, n}) {
      if (k > n) continue;
      Doubles logits = random_doubles(n, 6, n);
      // Equal logits go by index, zeros of either sign too.
      if (n > 6) logits[5] = logits[2];
      if (n > 60) logits[40] = 0, logits[50] = -0.0, logits[n - 1] = logits[n - 2];
      const std::vector<float> z = floats(logits);
      std::vector<uint16_t> order(n);
      std::iota(order.begin(), order.end(), uint16_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
      double sum = 0, sharp_sum = 0;
      for (const double v : logits) {
        sum += std::exp(v * kSharpness.alpha);
        sharp_sum += std::exp(v * kSharpness.chance);
      }

      std::vector<float> first, first_chance;
      for (const char* isa : kSets) {
        if (cpu_kernels_named(isa) == nullptr) continue;
        std::vector<uint16_t> ids(k);
        std::vector<float> alpha(k);
        std::vector<float> chance(k);
        REQUIRE(rank_experts_named(isa)(z.data(), n, k, kSharpness, ids.data(), alpha.data(), chance.data()));
        CHECK(std::equal(ids.begin(), ids.end(), order.begin()));
        for (size_t i = 0; i < k; ++i) {
          const double soft = std::exp(logits[order[i]] * kSharpness.alpha) / sum;
          CHECK(alpha[i] == doctest::Approx(soft).epsilon(1e-5));
          const double sharp = std::exp(logits[order[i]] * kSharpness.chance) / sharp_sum;
          CHECK(chance[i] == doctest::Approx(sharp).epsilon(1e-4));
        }
        if (first.empty()) first = alpha, first_chance = chance;
        CHECK(alpha == first);
        CHECK(chance == first_chance);
        std::vector<float> alone(k);
        REQUIRE(rank_experts_named(isa)(z.data(), n, k, kSharpness, ids.data(), alone.data(), nullptr));
        CHECK(alone == alpha);
      }
    }
  }
}

TEST_CASE("expert ranking: a logit that is not finite is reported at every position") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), -std::nanf("")}) {
    for (const size_t at : {0, 15, 20, 32}) {
      std::vector<float> z(33, 1.0f);
      z[at] = bad;
      for (const char* isa : kSets) {
        if (cpu_kernels_named(isa) == nullptr) continue;
        uint16_t id = 0;
        float alpha = 0;
        CHECK_FALSE(rank_experts_named(isa)(z.data(), z.size(), 1, kSharpness, &id, &alpha, nullptr));
      }
    }
  }
}

}  // namespace
}  // namespace sida
