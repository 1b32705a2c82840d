#include "predictor/softmax.h"
#include "predictor/sparsemax.h"
#include "support/predictor_reference.h"

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> sparsemax_of(std::vector<float> z) {
  sparsemax(z.data(), z.size(), z.data());
  return z;
}

std::vector<float> softmax_of(std::vector<float> z) {
  softmax(z.data(), z.size(), z.data());
  return z;
}

TEST_CASE("softmax: agrees with the form in double, in place, and returns the logarithm of the sum") {
  for (const auto& [scale, n] : grid(Doubles{0.01, 1.0, 30.0}, Sizes{1, 2, 7, 36})) {
    const Doubles z = random_doubles(n, scale, n + 3);
    std::vector<float> p = floats(z);
    const double log_sum = softmax(p.data(), n, p.data());
    double sum = 0;
    for (const double v : z) sum += std::exp(v - z[0]);
    CHECK(log_sum == doctest::Approx(z[0] + std::log(sum)).epsilon(1e-6).scale(1));
    CHECK(relative_error(p, softmax64(z)) < 1e-6);
  }
}

TEST_CASE("sparsemax: agrees with the sorted form in double") {
  for (const auto& [scale, n] : grid(Doubles{0.01, 0.3, 1.0, 3.0, 50.0}, Sizes{1, 2, 3, 7, 32, 36, 200})) {
    const Doubles z = random_doubles(n, scale, n * 31 + static_cast<uint64_t>(scale * 100));
    const Doubles expected = sparsemax64(z);
    const std::vector<float> p = sparsemax_of(floats(z));
    for (size_t i = 0; i < n; ++i) {
      CHECK(p[i] == doctest::Approx(expected[i]).epsilon(1e-6));
      CHECK((p[i] > 0) == (expected[i] > 1e-12));
    }
    CHECK(std::accumulate(p.begin(), p.end(), 0.0) == doctest::Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("sparsemax: one score takes all, equal ones share alike; a constant changes nothing, nor does the place") {
  CHECK(sparsemax_of({-7.5f}) == std::vector<float>{1.0f});
  CHECK(sparsemax_of({2, 2, 2, 2}) == std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f});
  CHECK(sparsemax_of({5, 1, 5, 1}) == std::vector<float>{0.5f, 0, 0.5f, 0});
  // Exactly at the threshold: zero, outside the support.
  CHECK(sparsemax_of({1, 0, 0}) == std::vector<float>{1, 0, 0});
  CHECK(sparsemax_of({0, -kInfinity}) == std::vector<float>{1, 0});
  const std::vector<float> z = {0.5f, 0.25f, -1, 0.75f};
  std::vector<float> aside(4);
  sparsemax(z.data(), 4, aside.data());
  CHECK(sparsemax_of(z) == aside);
  CHECK(sparsemax_of({1024.5f, 1024.25f, 1023, 1024.75f}) == aside);
}

TEST_CASE("weight functions: a score that is not finite gives NaN") {
  const std::vector<float> bad[] = {{kNan, 1, 2}, {1, 2, kNan}, {kNan}, {1, kInfinity}};
  const auto check = [](const std::vector<float>& p) { CHECK(std::isnan(std::accumulate(p.begin(), p.end(), 0.0f))); };
  for (const std::vector<float>& z : bad) check(softmax_of(z)), check(sparsemax_of(z));
  check(softmax_of({1, -kInfinity}));
  check(sparsemax_of({kInfinity, kInfinity}));
}

TEST_CASE("weight functions: backward agrees with finite differences") {
  for (const auto& [scale, n, sparse] : grid(Doubles{0.01, 1.0, 3.0}, Sizes{1, 2, 5, 36}, kBoth)) {
    const Doubles z = random_doubles(n, scale, n + 5);
    const Doubles dp = random_doubles(n, 1, n + 6);
    const auto loss = [&](const Doubles& at) { return dot(sparse ? sparsemax64(at) : softmax64(at), dp); };
    const Doubles expected = numeric_gradient(z, loss, sparse ? 1e-7 : 1e-6);
    const std::vector<float> p = sparse ? sparsemax_of(floats(z)) : softmax_of(floats(z));
    std::vector<float> dz = floats(dp);
    (sparse ? sparsemax_backward : softmax_backward)(p.data(), dz.data(), n, dz.data());
    for (size_t i = 0; i < n; ++i) CHECK(dz[i] == doctest::Approx(expected[i]).epsilon(1e-5).scale(1));
  }
}

TEST_CASE("sparsemax: backward of ties is that of their support") {
  const std::vector<float> p = sparsemax_of({5, 1, 5, 1});
  std::vector<float> d = {1, 100, 3, 100};
  sparsemax_backward(p.data(), d.data(), 4, d.data());
  CHECK(d == std::vector<float>{-1, 0, 1, 0});
}

}  // namespace
