
#include "predictor/adamw.h"

#include "support/predictor_reference.h"

namespace {

TEST_CASE("AdamW: agrees with the recurrence in double over 50 steps") {
  const size_t n = 37;
  const AdamWOptions options = {.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-6f, .weight_decay = 0.1f};
  Doubles w = random_doubles(n, 1, 1);
  Doubles m(n), v(n);
  std::vector<float> weights = floats(w);
  AdamWState state(n);
  const double b1 = options.beta1, b2 = options.beta2;
  for (uint64_t step = 0; step < 50; ++step) {
    const Doubles gradient = random_doubles(n, 3, 100 + step);
    const float rate = 0.01f / static_cast<float>(step + 1);
    AdamWStep(options, state.steps++, rate)
        .update(n, floats(gradient).data(), 0.5f, weights.data(), state.mean.data(), state.square.data());
    const double t = static_cast<double>(step + 1);
    for (size_t i = 0; i < n; ++i) {
      const double g = 0.5 * gradient[i];
      w[i] -= static_cast<double>(rate) * options.weight_decay * w[i];
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      w[i] -= rate * (m[i] / (1 - std::pow(b1, t))) /
              (std::sqrt(v[i] / (1 - std::pow(b2, t))) + static_cast<double>(options.epsilon));
    }
  }
  CHECK(relative_error(weights, w) < 2e-6);
  CHECK(relative_error(state.mean, m) < 2e-6);
  CHECK(relative_error(state.square, v) < 2e-6);
}

TEST_CASE("AdamW: the first step moves each weight by the learning rate, against its gradient, or decays it alone") {
  const auto check = [](std::vector<float> weights, const std::vector<float>& gradient, float decay,
                        const std::vector<float>& expected) {
    AdamWState state(weights.size());
    AdamWStep({.weight_decay = decay}, 0, 0.1f)
        .update(weights.size(), gradient.data(), 1, weights.data(), state.mean.data(), state.square.data());
    for (size_t i = 0; i < expected.size(); ++i) CHECK(weights[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  };
  check({0, 0, 0}, {1e-3f, -5, 100}, 0, {-0.1f, 0.1f, -0.1f});
  check({2}, {0}, 0.5f, {1.9f});
}

}  // namespace
