#include <cmath>
#include <cstring>
#include <limits>

#include "doctest/doctest.h"
#include "ops/cpu/kernels.h"
#include "predictor/gate_functions.h"
#include "predictor/lstm_cell.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

TEST_CASE("gate functions: agree with the library's in double, and are clamped outside their range") {
  for (double x = -87; x <= 87; x += 0.0137) {
    const float at = static_cast<float>(x);
    const double wide = at;
    REQUIRE(std::abs(gate_exp(at) / std::exp(wide) - 1) < 4e-7);
    REQUIRE(std::abs(gate_sigmoid(at) - 1 / (1 + std::exp(-wide))) < 2e-7);
    REQUIRE(std::abs(gate_tanh(at) - std::tanh(wide)) < 3e-7);
  }
  CHECK(gate_exp(0) == 1);
  CHECK(gate_tanh(0) == 0);
  CHECK(gate_sigmoid(1e30f) == 1);
  CHECK(gate_sigmoid(-1e30f) < 1e-37f);
  CHECK(gate_tanh(1e30f) == 1);
  CHECK(gate_tanh(-1e30f) == -1);
  CHECK(std::isnan(gate_sigmoid(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(gate_tanh(std::numeric_limits<float>::infinity())));
}

TEST_CASE("LSTM cell: every instruction set gives the same bits, whatever the width") {
  for (const size_t h : {1, 3, 16, 37, 64}) {
    const std::vector<float> bias = floats(random_doubles(4 * h, 1, 1));
    const std::vector<float> sums = floats(random_doubles(4 * h, 20, 2));
    const std::vector<float> before = floats(random_doubles(h, 2, 3));
    const std::vector<float> dy = floats(random_doubles(h, 1, 4));
    std::vector<std::vector<float>> results;
    for (const char* isa : {"scalar", "avx2", "avx512"}) {
      if (cpu_kernels_named(isa) == nullptr) continue;
      const LstmCell& cell = lstm_cell_named(isa);
      std::vector<float> gates = sums, c = before, c_tanh(h), y(h), carry = dy, dgates(4 * h);
      cell.forward(h, bias.data(), c.data(), gates.data(), c.data(), c_tanh.data(), y.data());
      cell.backward(h, gates.data(), before.data(), c_tanh.data(), dy.data(), y.data(), carry.data(),
                    dgates.data());
      std::vector<float> all;
      for (const auto& part : {gates, c, c_tanh, y, carry, dgates})
        all.insert(all.end(), part.begin(), part.end());
      results.push_back(all);
    }
    for (const std::vector<float>& result : results) {
      CHECK(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)) == 0);
    }
  }
}

}  // namespace
}  // namespace sida
