// The routers of all families, on every device, against a plain reference in float64.
#include "support/ops_fixture.h"

namespace {

constexpr size_t kRouted = 12, kTokens = 40;

struct Choice {
  std::vector<uint16_t> experts;
  Doubles factors;
};

Choice reference(const Doubles& logits, const std::vector<float>& correction, const RouterSpec& spec) {
  Doubles scores = logits;
  if (spec.scores == RouterScores::kSoftmax) scores = softmax64(logits);
  if (spec.scores == RouterScores::kSigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
  }
  Doubles choice = scores;
  for (size_t e = 0; e < correction.size(); ++e) choice[e] += static_cast<double>(correction[e]);
  const size_t size = choice.size() / spec.groups.count;
  Doubles groups;
  for (size_t g = 0; g < spec.groups.count; ++g) {
    Doubles of = part_of(choice, g * size, size);
    std::sort(of.rbegin(), of.rend());
    groups.push_back(std::accumulate(of.begin(), of.begin() + static_cast<long>(spec.groups.best), 0.0));
  }
  const auto kept = largest(groups, spec.groups.kept);
  for (size_t e = 0; e < choice.size(); ++e) {
    if (std::ranges::find(kept, e / size) == kept.end()) choice[e] = -INFINITY;
  }
  Choice out{largest(choice, spec.top_k), {}};
  for (const uint16_t e : out.experts) out.factors.push_back(scores[e]);
  if (spec.scores == RouterScores::kSoftmaxOfChosen) out.factors = softmax64(out.factors);
  const double sum = std::accumulate(out.factors.begin(), out.factors.end(), 0.0);
  for (double& factor : out.factors) factor = factor / (spec.normalized ? sum : 1) * spec.scale;
  return out;
}

RouterSpec router(RouterScores scores, size_t top_k, bool corrected = false, ExpertGroups groups = {},
                  double scale = 1) {
  RouterSpec spec{.top_k = top_k, .scores = scores, .corrected = corrected};
  spec.normalized = scores == RouterScores::kSigmoid;
  spec.scale = scale;
  spec.groups = groups;
  return spec;
}

void check_router(DeviceKind kind, const RouterSpec& spec, bool biased, size_t count = kRouted) {
  CASE(device_name(kind), spec.scores, spec.top_k, spec.normalized, spec.groups.count, biased, count);
  OpsFixture fixture(kind, moe_spec(Activation::kRelu, spec, count), limits_of(kTokens));
  const TestMatrix w = fixture.matrix(count, kWidth, kF32Format, 1);
  const auto bias = biased ? random_floats(count, 3) : std::vector<float>(count);
  const auto correction = spec.corrected ? random_floats(count, 4) : std::vector<float>{};
  auto x = random_floats(kTokens * kWidth, 2);
  std::fill_n(x.begin() + 5 * kWidth, kWidth, 0.0f);  // without a bias all experts are alike
  FeedForwardWeights weights{};
  weights.router = w.panels;
  if (biased) weights.router.bias = fixture.upload(bias);
  if (spec.corrected) weights.router_correction = fixture.upload(correction);
  const Pass pass(fixture, kTokens);
  fixture.write(fixture.at().normed, x);
  Dispatch dispatch, alone;
  std::vector<float> logits(kTokens * count);
  fixture.ops().choose(weights, spec, kTokens, logits.data(), dispatch);
  REQUIRE(dispatch.k == spec.top_k);
  std::vector<uint16_t> experts;
  Doubles factors;
  const Doubles wanted = by_row(x, kWidth, [&](const Doubles& row) {
    Doubles own = w.times(row);
    for (size_t e = 0; e < count; ++e) own[e] += static_cast<double>(bias[e]);
    const Choice choice = reference(own, correction, spec);
    experts.insert(experts.end(), choice.experts.begin(), choice.experts.end());
    factors.insert(factors.end(), choice.factors.begin(), choice.factors.end());
    return own;
  });
  CHECK(dispatch.expert == experts);
  check_near(logits, wanted, 2e-6);
  check_near(dispatch.alpha, factors, biased ? 5e-6 : 2e-6);

  fixture.write(fixture.at().normed, {x.end() - kWidth, x.end()});
  fixture.ops().choose(weights, spec, 1, nullptr, alone);
  CHECK(alone.expert == part_of(dispatch.expert, (kTokens - 1) * spec.top_k, spec.top_k));
  CHECK(same_bits(alone.alpha, part_of(dispatch.alpha, (kTokens - 1) * spec.top_k, spec.top_k)));
}

TEST_CASE("ops: routers by softmax, sigmoid and a softmax of the chosen, with corrections, groups and scales") {
  using enum RouterScores;
  for (const DeviceKind kind : devices()) {
    for (const RouterSpec& spec : {
             router(kSoftmax, 3),
             router(kSoftmax, 3, false, {}, 16),
             router(kSoftmax, 4, false, {4, 2, 1}, 1.5),
             router(kSigmoid, 4, true),
             router(kSigmoid, 4, true, {4, 2, 2}, 2.5),
             router(kSigmoid, 3, true, {3, 1, 2}, 2.5),
             router(kSoftmaxOfChosen, 4),
         }) {
      check_router(kind, spec, true);
    }
    for (const auto& [normalized, top_k, count] :
         grid(kBoth, Sizes{1, 2, 8, kRouted}, Sizes{1, 2, 8, kRouted, 31, 32, 33, 64, 128, 256, 257, 300})) {
      if (top_k > count) continue;
      RouterSpec spec = router(kSoftmax, top_k, false, {}, normalized ? 0.8 : 1);
      spec.normalized = normalized;
      check_router(kind, spec, false, count);
    }
  }
}

TEST_CASE("ops: a router with a norm of its own routes hidden, also ahead, and experts have factors") {
  for (const auto& [kind, scores] : grid(devices(), std::vector{RouterScores::kSoftmax, RouterScores::kSigmoid})) {
    CASE(device_name(kind), scores);
    RouterSpec spec = router(scores, 3);
    const ModelSpec model = moe_spec(Activation::kGeglu, spec, kRouted);
    OpsFixture fixture(kind, model, limits_of(kTokens));
    FeedForwardWeights weights{};
    weights.router = fixture.matrix(kRouted, kWidth, kF32Format, 1).panels;
    const auto row = random_floats(kWidth, 2);
    const Pass pass(fixture, kTokens);
    Ops& ops = fixture.ops();
    const Activations& a = fixture.at();
    fixture.write(a.hidden, random_floats(kTokens * kWidth, 3));
    // A row times 1 / 4 has the same bits as a scale of 1 / 4.
    auto quarter = row;
    for (float& value : quarter) value /= 4;
    ops.norm(a.hidden, {fixture.upload(quarter)}, model.norm_epsilon, kTokens, kWidth, a.normed);
    std::vector<float> logits(kTokens * kRouted), own_logits(kTokens * kRouted);
    Dispatch expected, own, ahead;
    ops.choose(weights, spec, kTokens, logits.data(), expected);
    fixture.write(a.normed, random_floats(kTokens * kWidth, 4));
    weights.router_norm = {fixture.upload(row)};
    spec.input_scale = 0.25f;
    ops.choose(weights, spec, kTokens, own_logits.data(), own);
    CHECK(same_bits(own_logits, logits));
    CHECK(own.expert == expected.expert);
    CHECK(own.alpha == expected.alpha);
    const LaterLayer later{&weights, &spec, &ahead};
    ops.choose_ahead({&later, 1}, kTokens);
    CHECK(ahead.expert == expected.expert);

    const auto factors = random_floats(kRouted, 5);
    weights.expert_factors = fixture.upload(factors);
    ops.choose(weights, spec, kTokens, nullptr, ahead);
    for (size_t i = 0; i < own.alpha.size(); ++i) CHECK(ahead.alpha[i] == own.alpha[i] * factors[own.expert[i]]);
    own.expert[4] = kNoExpert;
    for (size_t i = 0; i < own.alpha.size(); ++i) expected.alpha[i] *= i == 4 ? 1 : factors[expected.expert[i]];
    ops.weigh_choices(fixture.upload(factors), kRouted, own);
    CHECK(own.alpha == expected.alpha);
  }
}

TEST_CASE("ops: a router's logit or correction that is not a number makes all factors NaN") {
  using enum RouterScores;
  for (const auto& [kind, spec] :
       grid(devices(), std::vector{router(kSigmoid, 2), router(kSoftmaxOfChosen, 2), router(kSigmoid, 2, true),
                                   router(kSigmoid, 2, true, {2, 1, 2})})) {
    CASE(device_name(kind), spec.scores, spec.corrected, spec.groups.count);
    OpsFixture fixture(kind, moe_spec(Activation::kRelu, spec, kRouted), limits_of(2));
    std::vector<float> broken(kRouted);
    broken[7] = NAN;
    FeedForwardWeights weights{};
    weights.router = fixture.matrix(kRouted, kWidth, kF32Format, 1).panels;
    (spec.corrected ? weights.router_correction : weights.router.bias) = fixture.upload(broken);
    const Pass pass(fixture, 2);
    fixture.write(fixture.at().normed, random_floats(2 * kWidth, 2));
    Dispatch dispatch;
    fixture.ops().choose(weights, spec, 2, nullptr, dispatch);
    for (const float alpha : dispatch.alpha) CHECK(std::isnan(alpha));
  }
}

}  // namespace
