// Feed-forward networks and routers, on every device, against float64.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "doctest/doctest.h"
#include "support/moe_ops.h"
#include "support/ops_fixture.h"

namespace sida {
namespace {

using namespace testing;

TEST_CASE("ops: hidden += the feed-forward network of normed, and each row has the bits it has alone") {
  for (const DeviceKind kind : devices()) {
    for (const Activation activation : kActivations) {
      for (const WeightFormat format : {kF32Format, kBf16Format, WeightFormat{WeightType::kInt8, 0}}) {
        CAPTURE(device_name(kind));
        CAPTURE(gated(activation));
        CAPTURE(weight_type_name(format.type));
        const size_t tokens = emulated(kind) ? 20 : 300;
        OpsFixture fixture(kind, moe_spec(activation, {}), limits_of(tokens));
        Network net{.activation = activation};
        if (gated(activation)) net.gate = fixture.matrix(kHidden, kWidth, format, 1);
        net.up = fixture.matrix(kHidden, kWidth, format, 2);
        net.down = fixture.matrix(kWidth, kHidden, format, 3);
        const auto x = random_floats(tokens * kWidth, 4), before = random_floats(tokens * kWidth, 5);
        const Pass pass(fixture, tokens);
        fixture.write(fixture.at().normed, x);
        fixture.write(fixture.at().hidden, before);
        fixture.ops().feed_forward({net.gate.panels, net.up.panels, net.down.panels, {}}, activation, tokens);
        const auto found = fixture.read(fixture.at().hidden, before.size());
        std::vector<double> expected(before.begin(), before.end());
        for (size_t t = 0; t < tokens; ++t) {
          const auto y = net.run(&x[t * kWidth]);
          for (size_t i = 0; i < kWidth; ++i) expected[t * kWidth + i] += y[i];
        }
        check_near(found, expected, product_tolerance(kind, format, 3e-6));

        const size_t last = tokens - 1;
        fixture.write(fixture.at().normed, {x.begin() + static_cast<ptrdiff_t>(last * kWidth), x.end()});
        fixture.write(fixture.at().hidden, {before.begin() + static_cast<ptrdiff_t>(last * kWidth), before.end()});
        fixture.ops().feed_forward({net.gate.panels, net.up.panels, net.down.panels, {}}, activation, 1);
        CHECK(same_bits(fixture.read(fixture.at().hidden, kWidth).data(), &found[last * kWidth], kWidth));
      }
    }
  }
}

TEST_CASE("ops: biases of a network, beyond the limits of its activation, and gates of its outputs") {
  constexpr size_t kTokens = 21;
  for (const DeviceKind kind : devices()) {
    for (const Activation activation : kActivations) {
      for (const SharedGate gate : {SharedGate::kNone, SharedGate::kSigmoid, SharedGate::kSoftmax}) {
        CAPTURE(device_name(kind));
        CAPTURE(static_cast<int>(gate));
        ModelSpec spec = moe_spec(activation, {});
        auto& moe = std::get<MoeSpec>(spec.stacks[0].layers[1].feed_forward);
        moe.shared = SharedExpertSpec{{kHidden, activation, true}, gate};
        OpsFixture fixture(kind, spec, limits_of(kTokens));
        Network net{.activation = activation};
        if (gated(activation)) net.gate = fixture.matrix(kHidden, kWidth, kF32Format, 1);
        net.up = fixture.matrix(kHidden, kWidth, kF32Format, 2);
        net.down = fixture.matrix(kWidth, kHidden, kF32Format, 3);
        net.gate_bias = random_floats(kHidden, 6);
        net.up_bias = random_floats(kHidden, 7);
        net.down_bias = random_floats(kWidth, 8);
        net.gate_bias[3] = net.up_bias[4] = 20;
        net.gate_bias[5] = net.up_bias[6] = -20;
        const size_t gates = gate == SharedGate::kSoftmax ? 2 : 1;
        const TestMatrix output_gate = fixture.matrix(gates, kWidth, kF32Format, 9);
        const std::vector<float> gate_bias{0.25f, -0.5f};
        FfnWeights weights{net.gate.panels, net.up.panels, net.down.panels, {}};
        weights.gate.bias = fixture.upload(net.gate_bias);
        weights.up.bias = fixture.upload(net.up_bias);
        weights.down.bias = fixture.upload(net.down_bias);
        if (gate != SharedGate::kNone) weights.output_gate = output_gate.panels;
        if (gates == 2) weights.output_gate.bias = fixture.upload(gate_bias);
        const auto x = random_floats(kTokens * kWidth, 4);
        const Pass pass(fixture, kTokens);
        fixture.write(fixture.at().normed, x);
        fixture.write(fixture.at().hidden, std::vector<float>(kTokens * kWidth));
        fixture.ops().feed_forward(weights, activation, kTokens);
        std::vector<double> expected, first_factors;
        for (size_t t = 0; t < kTokens; ++t) {
          const auto row = doubles(&x[t * kWidth], kWidth);
          double scale = 1;
          if (gates == 2) {
            const double first = std::exp(product(output_gate, 0, row.data()) + 0.25);
            const double second = std::exp(product(output_gate, 1, row.data()) - 0.5);
            scale = second / (first + second);
            first_factors.push_back(1 - scale);
          } else if (gate == SharedGate::kSigmoid) {
            scale = 1 / (1 + std::exp(-product(output_gate, 0, row.data())));
          }
          for (const double y : net.run(&x[t * kWidth])) expected.push_back(scale * y);
        }
        check_near(fixture.read(fixture.at().hidden, kTokens * kWidth), expected, 3e-6);
        if (gates != 2) continue;
        Dispatch dispatch{.k = 3, .alpha = random_floats(kTokens * 3, 10)};
        std::vector<double> alphas;
        for (size_t i = 0; i < dispatch.alpha.size(); ++i) alphas.push_back(dispatch.alpha[i] * first_factors[i / 3]);
        fixture.ops().scale_choices(weights.output_gate, kTokens, dispatch);
        check_near(dispatch.alpha, alphas, 1e-6);
      }
    }
  }
}

TEST_CASE("ops: the router chooses the most probable experts, the first of equal ones") {
  constexpr size_t kTokens = 33;
  for (const DeviceKind kind : devices()) {
    for (const bool normalized : {false, true}) {
      for (const size_t top_k : {size_t{1}, size_t{2}, size_t{8}, kExperts}) {
        CAPTURE(device_name(kind));
        CAPTURE(normalized);
        CAPTURE(top_k);
        const double scale = normalized ? 0.8 : 1;
        const RouterSpec router{.top_k = top_k, .normalized = normalized, .scale = scale};
        OpsFixture fixture(kind, moe_spec(Activation::kRelu, router), limits_of(kTokens));
        const TestMatrix w = fixture.matrix(kExperts, kWidth, kF32Format, 1);
        auto x = random_floats(kTokens * kWidth, 2);
        std::fill_n(x.begin() + 5 * kWidth, kWidth, 0.0f);  // all alike
        const Pass pass(fixture, kTokens);
        fixture.write(fixture.at().normed, x);
        FeedForwardWeights weights{};
        weights.router = w.panels;
        Dispatch dispatch;
        std::vector<float> logits(kTokens * kExperts);
        fixture.ops().choose(weights, router, kTokens, logits.data(), dispatch);
        REQUIRE(dispatch.k == top_k);
        REQUIRE(dispatch.expert.size() == kTokens * top_k);
        std::vector<double> expected, alphas;
        for (size_t t = 0; t < kTokens; ++t) {
          const auto row = doubles(&x[t * kWidth], kWidth);
          std::vector<double> p(kExperts);
          double sum = 0, chosen = 0;
          for (size_t e = 0; e < kExperts; ++e) {
            expected.push_back(product(w, e, row.data()));
            sum += p[e] = std::exp(expected.back());
          }
          std::vector<uint16_t> order(kExperts);
          std::iota(order.begin(), order.end(), uint16_t{0});
          std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) { return p[a] > p[b]; });
          for (size_t j = 0; j < top_k; ++j) chosen += p[order[j]];
          for (size_t j = 0; j < top_k; ++j) {
            CHECK(dispatch.expert[t * top_k + j] == order[j]);
            alphas.push_back(scale * p[order[j]] / (normalized ? chosen : sum));
          }
        }
        check_near(logits, expected, 2e-6);
        check_near(dispatch.alpha, alphas, 2e-6);

        Dispatch alone;
        fixture.write(fixture.at().normed, {x.end() - kWidth, x.end()});
        fixture.ops().choose(weights, router, 1, nullptr, alone);
        for (size_t j = 0; j < top_k; ++j) {
          CHECK(alone.expert[j] == dispatch.expert[(kTokens - 1) * top_k + j]);
          CHECK(same_bits(&alone.alpha[j], &dispatch.alpha[(kTokens - 1) * top_k + j], 1));
        }
      }
    }
  }
}

}  // namespace
}  // namespace sida
