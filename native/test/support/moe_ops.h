#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/ops_fixture.h"

namespace sida::testing {

inline constexpr size_t kWidth = 72, kHidden = 100, kExperts = 9;

inline ModelSpec moe_spec(Activation activation, const RouterSpec& router) {
  ModelSpec spec = decoder_spec(kWidth, 3, 3, 24);
  spec.stacks[0].layers[0].feed_forward = FfnSpec{kHidden, activation};
  spec.stacks[0].layers[1].feed_forward = MoeSpec{kExperts, {kHidden, activation}, router};
  return spec;
}

inline BatchLimits limits_of(size_t tokens, size_t threads = 2) {
  BatchLimits limits;
  limits.max_batch_tokens = tokens;
  limits.kv_tokens = (tokens + 15) / 16 * 16;
  limits.threads = threads;
  return limits;
}

/// A pass of one sequence.
struct Pass {
  KvPages pages;
  SequenceSpan span;

  Pass(OpsFixture& fixture, size_t tokens) : span{0, tokens, 0, &pages} {
    fixture.cache().grow(pages, 0, tokens);
    fixture.ops().start(0, {&span, 1}, tokens);
  }
};

/// A feed-forward network, gated or not.
struct Network {
  TestMatrix gate, up, down;

  /// down · (max(up · x, 0) or silu(gate · x) ∘ up · x) in float64.
  std::vector<double> run(const float* x) const {
    const auto row = doubles(x, kWidth);
    std::vector<double> hidden, y;
    for (size_t i = 0; i < kHidden; ++i) {
      const double value = product(up, i, row.data());
      const double g = gate.rows.empty() ? 0 : product(gate, i, row.data());
      hidden.push_back(gate.rows.empty() ? std::max(value, 0.0) : g / (1 + std::exp(-g)) * value);
    }
    for (size_t i = 0; i < kWidth; ++i) y.push_back(product(down, i, hidden.data()));
    return y;
  }
};

inline constexpr Activation kActivations[] = {Activation::kRelu, Activation::kSwiglu};

}  // namespace sida::testing
