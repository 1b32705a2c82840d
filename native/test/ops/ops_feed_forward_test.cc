// Feed-forward networks, on every device, against float64.
#include "support/ops_fixture.h"

namespace {

TEST_CASE("ops: hidden += the feed-forward network of normed, and each row has the bits it has alone") {
  for (const auto& [kind, activation, format] :
       grid(devices(), kActivations, std::vector{kF32Format, kBf16Format, kInt8Format})) {
    CASE(device_name(kind), activation, format);
    const size_t tokens = emulated(kind) ? 20 : 300, last = tokens - 1;
    OpsFixture fixture(kind, moe_spec(activation, {}), limits_of(tokens));
    const Network net = Network::random(fixture, activation, format);
    const FfnWeights weights{net.gate.panels, net.up.panels, net.down.panels, {}};
    const auto x = random_floats(tokens * kWidth, 4), before = random_floats(tokens * kWidth, 5);
    const Pass pass(fixture, tokens);
    fixture.write(fixture.at().normed, x);
    fixture.write(fixture.at().hidden, before);
    fixture.ops().feed_forward(weights, activation, tokens, fixture.at().hidden);
    const auto found = fixture.read(fixture.at().hidden, before.size());
    Doubles expected = by_row(x, kWidth, [&](const Doubles& row) { return net.run(row); });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    check_near(found, expected, product_tolerance(kind, format, 3e-6));

    fixture.write(fixture.at().normed, part_of(x, last * kWidth, kWidth));
    fixture.write(fixture.at().hidden, part_of(before, last * kWidth, kWidth));
    fixture.ops().feed_forward(weights, activation, 1, fixture.at().hidden);
    CHECK(same_bits(fixture.read(fixture.at().hidden, kWidth), part_of(found, last * kWidth, kWidth)));
  }
}

TEST_CASE("ops: biases of a network, beyond the limits of its activation, and gates of its outputs") {
  constexpr size_t kTokens = 21;
  for (const auto& [kind, activation, gate] :
       grid(devices(), kActivations, std::vector{SharedGate::kNone, SharedGate::kSigmoid, SharedGate::kSoftmax})) {
    CASE(device_name(kind), activation, gate);
    ModelSpec spec = moe_spec(activation, {});
    auto& moe = std::get<MoeSpec>(spec.stacks[0].layers[1].feed_forward);
    moe.shared = SharedExpertSpec{{kHidden, activation, true}, gate};
    OpsFixture fixture(kind, spec, limits_of(kTokens));
    Network net = Network::random(fixture, activation, kF32Format);
    net.gate_bias = random_floats(kHidden, 6);
    net.up_bias = random_floats(kHidden, 7);
    net.down_bias = random_floats(kWidth, 8);
    net.gate_bias[3] = net.up_bias[4] = 20;
    net.gate_bias[5] = net.up_bias[6] = -20;
    const size_t gates = gate == SharedGate::kSoftmax ? 2 : 1;
    const TestMatrix output_gate = fixture.matrix(gates, kWidth, kF32Format, 9);
    FfnWeights weights{net.gate.panels, net.up.panels, net.down.panels, {}};
    weights.gate.bias = fixture.upload(net.gate_bias);
    weights.up.bias = fixture.upload(net.up_bias);
    weights.down.bias = fixture.upload(net.down_bias);
    if (gate != SharedGate::kNone) weights.output_gate = output_gate.panels;
    if (gates == 2) weights.output_gate.bias = fixture.upload(std::vector{0.25f, -0.5f});
    const auto x = random_floats(kTokens * kWidth, 4);
    const Pass pass(fixture, kTokens);
    fixture.write(fixture.at().normed, x);
    fixture.write(fixture.at().hidden, std::vector<float>(kTokens * kWidth));
    fixture.ops().feed_forward(weights, activation, kTokens, fixture.at().hidden);
    Doubles first_factors;
    const Doubles expected = by_row(x, kWidth, [&](const Doubles& row) {
      const Doubles g = output_gate.times(row);
      const double sigmoid = 1 / (1 + std::exp(gates == 2 ? g[0] + 0.25 - (g[1] - 0.5) : -g[0]));
      const double scale = gate == SharedGate::kNone ? 1 : sigmoid;
      first_factors.push_back(1 - scale);
      Doubles y = net.run(row);
      for (double& value : y) value *= scale;
      return y;
    });
    check_near(fixture.read(fixture.at().hidden, kTokens * kWidth), expected, 3e-6);
    if (gates != 2) continue;
    Dispatch dispatch{.k = 3, .alpha = random_floats(kTokens * 3, 10)};
    Doubles alphas;
    for (size_t i = 0; i < dispatch.alpha.size(); ++i) alphas.push_back(dispatch.alpha[i] * first_factors[i / 3]);
    fixture.ops().scale_choices(weights.output_gate, kTokens, dispatch);
    check_near(dispatch.alpha, alphas, 1e-6);
  }
}

}  // namespace
