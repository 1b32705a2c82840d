#include <cmath>
#include <limits>
#include <numeric>

#include "doctest/doctest.h"
#include "predictor/sparsemax.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

std::vector<float> sparsemax_of(const std::vector<float>& z) {
  std::vector<float> p(z.size());
  sparsemax(z.data(), z.size(), p.data());
  return p;
}

TEST_CASE("sparsemax: agrees with the sorted form in double") {
  for (const double scale : {0.01, 0.3, 1.0, 3.0, 50.0}) {
    for (const size_t n : {1, 2, 3, 7, 32, 36, 200}) {
      const Doubles z = random_doubles(n, scale, n * 31 + static_cast<uint64_t>(scale * 100));
      const Doubles expected = reference_sparsemax(z);
      const std::vector<float> p = sparsemax_of(floats(z));
      double sum = 0;
      for (size_t i = 0; i < n; ++i) {
        CHECK(p[i] == doctest::Approx(expected[i]).epsilon(1e-6));
        CHECK((p[i] > 0) == (expected[i] > 1e-12));
        sum += p[i];
      }
      CHECK(sum == doctest::Approx(1).epsilon(1e-6));
    }
  }
}

TEST_CASE("sparsemax: one element takes everything") {
  CHECK(sparsemax_of({-7.5f}) == std::vector<float>{1.0f});
}

TEST_CASE("sparsemax: equal scores get equal shares, in and out of the support") {
  CHECK(sparsemax_of({2, 2, 2, 2}) == std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f});
  CHECK(sparsemax_of({5, 1, 5, 1}) == std::vector<float>{0.5f, 0, 0.5f, 0});
  // Exactly at the threshold: zero, outside the support.
  CHECK(sparsemax_of({1, 0, 0}) == std::vector<float>{1, 0, 0});
}

TEST_CASE("sparsemax: works in place, and adding a constant changes nothing") {
  std::vector<float> z = {0.5f, 0.25f, -1, 0.75f};
  const std::vector<float> p = sparsemax_of(z);
  std::vector<float> shifted = z;
  for (float& v : shifted) v += 1024;
  CHECK(sparsemax_of(shifted) == p);
  sparsemax(z.data(), z.size(), z.data());
  CHECK(z == p);
}

TEST_CASE("sparsemax: a score that is not finite gives NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& z :
       {std::vector<float>{nan, 1, 2}, {1, 2, nan}, {nan}, {1, infinity}, {infinity, infinity}}) {
    const std::vector<float> p = sparsemax_of(z);
    CHECK(std::isnan(std::accumulate(p.begin(), p.end(), 0.0f)));
  }
  CHECK(sparsemax_of({0, -infinity}) == std::vector<float>{1, 0});
}

TEST_CASE("sparsemax: backward agrees with finite differences of the sorted form") {
  for (const double scale : {0.01, 1.0, 3.0}) {
    for (const size_t n : {1, 2, 5, 36}) {
      const Doubles z = random_doubles(n, scale, n + 5);
      const Doubles dp = random_doubles(n, 1, n + 6);
      const auto loss = [&](const Doubles& at) {
        const Doubles p = reference_sparsemax(at);
        return std::inner_product(p.begin(), p.end(), dp.begin(), 0.0);
      };
      const Doubles expected = numeric_gradient(z, loss, 1e-7);
      std::vector<float> dz = floats(dp);
      sparsemax_backward(sparsemax_of(floats(z)).data(), dz.data(), n, dz.data());
      for (size_t i = 0; i < n; ++i) CHECK(dz[i] == doctest::Approx(expected[i]).epsilon(1e-5).scale(1));
    }
  }
}

TEST_CASE("sparsemax: backward of ties is that of their support") {
  const std::vector<float> p = sparsemax_of({5, 1, 5, 1});
  const std::vector<float> dp = {1, 100, 3, 100};
  std::vector<float> dz(4);
  sparsemax_backward(p.data(), dp.data(), 4, dz.data());
  CHECK(dz == std::vector<float>{-1, 0, 1, 0});
}

}  // namespace
}  // namespace sida
