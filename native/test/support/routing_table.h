#pragma once

#include "ops/cpu/kernels.h"
#include "ops/predicted_routing.h"
#include "support/oracle_cases.h"

namespace sida::testing {

/// A routing that owns its arrays; k 0 is none.
struct Table {
  std::vector<uint16_t> experts;
  std::vector<float> alpha;
  size_t k = 1;

  PredictedRouting view() const { return {experts, alpha, k}; }
};

/// What the routers of an exact pass chose before capacity, and its probability.
inline Table table_of(const Run& exact, size_t experts) {
  Table table;
  std::vector<float> row(experts);
  for (size_t i = 0; i < exact.router.size(); i += experts) {
    cpu_kernels().softmax(exact.router.data() + i, experts, row.data());
    const auto best = std::max_element(row.begin(), row.end());
    table.experts.push_back(static_cast<uint16_t>(best - row.begin()));
    table.alpha.push_back(*best);
  }
  return table;
}

/// Distinct random experts for each token, some entries naming nobody.
inline Table random_table(size_t layers, size_t tokens, size_t k, size_t experts, uint32_t seed) {
  std::mt19937 random(seed);
  Table table{{}, {}, k};
  std::vector<uint16_t> ids(experts);
  std::iota(ids.begin(), ids.end(), 0);
  for (size_t i = 0; i < layers * tokens; ++i) {
    std::shuffle(ids.begin(), ids.end(), random);
    for (size_t j = 0; j < k; ++j) {
      table.experts.push_back(random() % 16 == 0 ? kNoExpert : ids[j]);
      table.alpha.push_back(static_cast<float>(random() % 1000) / 700 - 0.3f);
    }
  }
  return table;
}

}  // namespace sida::testing
