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

/// An activation of gate · x and up · x, in float64.
inline double activated(Activation activation, double gate, double up) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(up, 0.0);
    case Activation::kSwiglu:
      return gate / (1 + std::exp(-gate)) * up;
    case Activation::kClampedSwiglu:
      break;
  }
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return (u + 1) * g / (1 + std::exp(-1.702 * g));
}

/// A feed-forward network.
struct Network {
  TestMatrix gate, up, down;
  Activation activation = Activation::kRelu;
  /// Of each matrix, or none.
  std::vector<float> gate_bias = {}, up_bias = {}, down_bias = {};

  /// In float64.
  std::vector<double> run(const float* x) const {
    const auto row = doubles(x, kWidth);
    const auto biased = [](double value, const std::vector<float>& bias, size_t i) {
      return bias.empty() ? value : value + static_cast<double>(bias[i]);
    };
    std::vector<double> hidden, y;
    for (size_t i = 0; i < kHidden; ++i) {
      const double g = gate.rows.empty() ? 0 : biased(product(gate, i, row.data()), gate_bias, i);
      hidden.push_back(activated(activation, g, biased(product(up, i, row.data()), up_bias, i)));
    }
    for (size_t i = 0; i < kWidth; ++i) y.push_back(biased(product(down, i, hidden.data()), down_bias, i));
    return y;
  }
};

inline constexpr Activation kActivations[] = {Activation::kRelu, Activation::kSwiglu, Activation::kClampedSwiglu};

}  // namespace sida::testing
