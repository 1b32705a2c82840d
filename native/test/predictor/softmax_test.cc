#include "predictor/softmax.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "doctest/doctest.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

TEST_CASE("softmax: agrees with the form in double, in place, and returns the logarithm of the sum") {
  for (const double scale : {0.01, 1.0, 30.0}) {
    for (const size_t n : {1, 2, 7, 36}) {
      const Doubles z = random_doubles(n, scale, n + 3);
      const Doubles expected = reference_softmax(z);
      std::vector<float> p = floats(z);
      const double log_sum = softmax(p.data(), n, p.data());
      double sum = 0;
      for (const double v : z) sum += std::exp(v - z[0]);
      CHECK(log_sum == doctest::Approx(z[0] + std::log(sum)).epsilon(1e-6).scale(1));
      CHECK(relative_error(p.data(), expected.data(), n) < 1e-6);
    }
  }
}

TEST_CASE("softmax: a score that is not finite gives NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& z : {std::vector<float>{nan, 1, 2}, {1, 2, nan}, {nan}, {1, infinity}, {1, -infinity}}) {
    std::vector<float> p(z.size());
    softmax(z.data(), z.size(), p.data());
    CHECK(std::isnan(std::accumulate(p.begin(), p.end(), 0.0f)));
  }
}

TEST_CASE("softmax: backward agrees with finite differences") {
  for (const double scale : {0.01, 1.0, 3.0}) {
    for (const size_t n : {1, 2, 5, 36}) {
      const Doubles z = random_doubles(n, scale, n + 5);
      const Doubles dp = random_doubles(n, 1, n + 6);
      const auto loss = [&](const Doubles& at) {
        const Doubles p = reference_softmax(at);
        return std::inner_product(p.begin(), p.end(), dp.begin(), 0.0);
      };
      const Doubles expected = numeric_gradient(z, loss);
      std::vector<float> p = floats(z);
      softmax(p.data(), n, p.data());
      std::vector<float> dz = floats(dp);
      softmax_backward(p.data(), dz.data(), n, dz.data());
      for (size_t i = 0; i < n; ++i) CHECK(dz[i] == doctest::Approx(expected[i]).epsilon(1e-5).scale(1));
    }
  }
}

}  // namespace
}  // namespace sida
