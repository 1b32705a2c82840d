#include "predictor/expert_ranking.h"
#include "predictor/few_rows.h"
#include "predictor/gate_functions.h"
#include "predictor/lstm_cell.h"
#include "predictor/matrix_product.h"
#include "support/kernel_sets.h"
#include "support/predictor_reference.h"

namespace {

constexpr ExpertSharpness kSharpness{0.4f, 2.5f};

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
  CHECK(std::isnan(gate_sigmoid(NAN)));
  CHECK(std::isnan(gate_tanh(kInfinity)));
}

TEST_CASE("LSTM cell: every instruction set gives the same bits, whatever the width") {
  for (const size_t h : {1, 3, 16, 37, 64}) {
    const std::vector<float> bias = floats(random_doubles(4 * h, 1, 1)), sums = floats(random_doubles(4 * h, 20, 2));
    const std::vector<float> before = floats(random_doubles(h, 2, 3)), dy = floats(random_doubles(h, 1, 4));
    of_all_sets([&](const CpuKernels& kernels) {
      const LstmCell& cell = lstm_cell_named(kernels.isa);
      std::vector<float> gates = sums, c = before, c_tanh(h), y(h), carry = dy, dgates(4 * h), all;
      cell.forward(h, bias.data(), c.data(), gates.data(), c.data(), c_tanh.data(), y.data());
      cell.backward(h, gates.data(), before.data(), c_tanh.data(), dy.data(), y.data(), carry.data(), dgates.data());
      for (const auto& part : {gates, c, c_tanh, y, carry, dgates}) all.insert(all.end(), part.begin(), part.end());
      return all;
    });
  }
}

TEST_CASE("few rows: the bits of the panel product, in every instruction set") {
  for (const CpuKernels* kernels : kernel_sets()) {
    const FewRowsProduct* few = few_rows_named(kernels->isa);
    if (few == nullptr) continue;
    const size_t n = few->panels * kPanelColumns;
    for (const size_t k : {1, 3, 64, 129}) {
      const std::vector<float> weights = floats(random_doubles(n * k, 1, 1));
      const std::vector<float> x = floats(random_doubles(kFewRows * (k + 2), 1, 2));
      AlignedFloats room;
      const PanelMatrix w = pack_transposed(weights.data(), n, k, &room);
      for (size_t rows = 1; rows <= kFewRows; ++rows) {
        std::vector<float> expected(rows * n), found(rows * n);
        cpu_kernels().gemm(
            {x.data(), k + 2, rows, w.data, kF32Format, k, n, 0, w.panels(), expected.data(), n, Epilogue::kStore});
        few->run(x.data(), k + 2, rows, room.data(), k, found.data());
        CHECK(same_bits(found, expected));
      }
    }
  }
}

TEST_CASE("matrix product: a row's bits do not depend on the rows beside it; zero rows read nothing") {
  const size_t k = 40;
  for (const auto& [n, epilogue] :
       grid(Sizes{1, 31, 64, 65, 160, 200}, std::vector{Epilogue::kStore, Epilogue::kAdd, Epilogue::kRelu})) {
    const std::vector<float> weights = floats(random_doubles(n * k, 1, 1)), x = floats(random_doubles(9 * k, 1, 2));
    AlignedFloats room;
    const PanelMatrix w = pack_transposed(weights.data(), n, k, &room);
    std::vector<float> all(9 * n, 0.5f);
    multiply(nullptr, k, 0, w, nullptr, n, epilogue);
    multiply(x.data(), k, 9, w, all.data(), n, epilogue);
    for (size_t rows = 1; rows <= 4; ++rows) {
      std::vector<float> some(rows * n, 0.5f);
      multiply(x.data(), k, rows, w, some.data(), n, epilogue);
      CHECK(same_bits(some.data(), all.data(), some.size()));
    }
  }
}

TEST_CASE("expert ranking: the best k in order with their softmax, the same bits in every instruction set") {
  for (const auto& [n, k] : grid(Sizes{1, 2, 7, 16, 17, 64, 128, 131}, Sizes{1, 2, 5, 7, 16, 17, 64, 128, 131})) {
    if (k > n || (k > 5 && k != n)) continue;
    Doubles logits = random_doubles(n, 6, n);
    // Equal logits go by index, zeros of either sign too.
    if (n > 6) logits[5] = logits[2];
    if (n > 60) logits[40] = 0, logits[50] = -0.0, logits[n - 1] = logits[n - 2];
    const std::vector<float> z = floats(logits);
    const auto soft_of = [&](double sharpness) {
      Doubles sharp = logits;
      for (double& v : sharp) v *= sharpness;
      return softmax64(sharp);
    };
    const Doubles soft = soft_of(kSharpness.alpha), sharp = soft_of(kSharpness.chance);
    const std::vector<uint16_t> order = largest(logits, k);
    of_all_sets([&](const CpuKernels& kernels) {
      std::vector<uint16_t> ids(k);
      std::vector<float> alpha(k), chance(k), alone(k);
      REQUIRE(rank_experts_named(kernels.isa)(z.data(), n, k, kSharpness, ids.data(), alpha.data(), chance.data()));
      CHECK(ids == order);
      for (size_t i = 0; i < k; ++i) {
        CHECK(alpha[i] == doctest::Approx(soft[order[i]]).epsilon(1e-5));
        CHECK(chance[i] == doctest::Approx(sharp[order[i]]).epsilon(1e-4));
      }
      REQUIRE(rank_experts_named(kernels.isa)(z.data(), n, k, kSharpness, ids.data(), alone.data(), nullptr));
      CHECK(alone == alpha);
      alpha.insert(alpha.end(), chance.begin(), chance.end());
      return alpha;
    });
  }
}

TEST_CASE("expert ranking: a logit that is not finite is reported at every position") {
  for (const auto& [bad, at] : grid(std::vector{kInfinity, -kInfinity, NAN, -NAN}, Sizes{0, 15, 20, 32})) {
    std::vector<float> z(33, 1.0f);
    z[at] = bad;
    for (const CpuKernels* kernels : kernel_sets()) {
      uint16_t id = 0;
      float alpha = 0;
      CHECK_FALSE(rank_experts_named(kernels->isa)(z.data(), z.size(), 1, kSharpness, &id, &alpha, nullptr));
    }
  }
}

}  // namespace
