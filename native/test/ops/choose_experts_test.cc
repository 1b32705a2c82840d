// The routers of all families, on every device, against a plain reference in float64.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "doctest/doctest.h"
#include "support/moe_ops.h"

namespace sida {
namespace {

using namespace testing;

constexpr size_t kRouted = 12, kTokens = 40;

struct Choice {
  std::vector<uint16_t> experts;
  std::vector<double> factors;
};

std::vector<double> softmax_of(std::vector<double> values) {
  const double top = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - top);
  for (double& value : values) value /= sum;
  return values;
}

std::vector<uint16_t> largest(const std::vector<double>& values, size_t count) {
  std::vector<uint16_t> order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

Choice reference(const std::vector<double>& logits, const std::vector<float>& correction, const RouterSpec& spec) {
  std::vector<double> scores = logits;
  if (spec.scores == RouterScores::kSoftmax) scores = softmax_of(logits);
  if (spec.scores == RouterScores::kSigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
  }
  std::vector<double> choice = scores;
  for (size_t e = 0; e < correction.size(); ++e) choice[e] += static_cast<double>(correction[e]);
  const size_t size = choice.size() / spec.groups.count;
  std::vector<double> groups;
  for (size_t g = 0; g < spec.groups.count; ++g) {
    std::vector<double> of(choice.begin() + static_cast<long>(g * size), choice.begin() + static_cast<long>((g + 1) * size));
    std::sort(of.rbegin(), of.rend());
    groups.push_back(std::accumulate(of.begin(), of.begin() + static_cast<long>(spec.groups.best), 0.0));
  }
  const auto kept = largest(groups, spec.groups.kept);
  for (size_t e = 0; e < choice.size(); ++e) {
    if (std::find(kept.begin(), kept.end(), e / size) == kept.end()) choice[e] = -INFINITY;
  }
  Choice out{largest(choice, spec.top_k), {}};
  for (const uint16_t e : out.experts) out.factors.push_back(scores[e]);
  if (spec.scores == RouterScores::kSoftmaxOfChosen) out.factors = softmax_of(out.factors);
  const double sum = std::accumulate(out.factors.begin(), out.factors.end(), 0.0);
  for (double& factor : out.factors) factor = factor / (spec.normalized ? sum : 1) * spec.scale;
  return out;
}

RouterSpec router(RouterScores scores, size_t top_k, bool corrected, ExpertGroups groups, double scale) {
  RouterSpec spec{.top_k = top_k, .scores = scores, .corrected = corrected};
  spec.normalized = scores == RouterScores::kSigmoid;
  spec.scale = scale;
  spec.groups = groups;
  return spec;
}

TEST_CASE("ops: routers by softmax, sigmoid and a softmax of the chosen, with corrections, groups and scales") {
  const RouterSpec specs[] = {
      router(RouterScores::kSoftmax, 3, false, {}, 1),
      router(RouterScores::kSoftmax, 3, false, {}, 16),
      router(RouterScores::kSoftmax, 4, false, {4, 2, 1}, 1.5),
      router(RouterScores::kSigmoid, 4, true, {}, 1),
      router(RouterScores::kSigmoid, 4, true, {4, 2, 2}, 2.5),
      router(RouterScores::kSigmoid, 3, true, {3, 1, 2}, 2.5),
      router(RouterScores::kSoftmaxOfChosen, 4, false, {}, 1),
  };
  for (const DeviceKind kind : devices()) {
    for (const RouterSpec& spec : specs) {
      CAPTURE(device_name(kind));
      CAPTURE(static_cast<int>(spec.scores));
      CAPTURE(spec.groups.count);
      ModelSpec model = moe_spec(Activation::kRelu, spec);
      std::get<MoeSpec>(model.stacks[0].layers[1].feed_forward).experts = kRouted;
      OpsFixture fixture(kind, model, limits_of(kTokens));
      const TestMatrix w = fixture.matrix(kRouted, kWidth, kF32Format, 1);
      const auto bias = random_floats(kRouted, 3), x = random_floats(kTokens * kWidth, 2);
      const auto correction = spec.corrected ? random_floats(kRouted, 4) : std::vector<float>{};
      FeedForwardWeights weights{};
      weights.router = w.panels;
      weights.router.bias = fixture.upload(bias);
      if (spec.corrected) weights.router_correction = fixture.upload(correction);
      const Pass pass(fixture, kTokens);
      fixture.write(fixture.at().normed, x);
      Dispatch dispatch;
      std::vector<float> logits(kTokens * kRouted);
      fixture.ops().choose(weights, spec, kTokens, logits.data(), dispatch);
      REQUIRE(dispatch.k == spec.top_k);
      std::vector<double> factors;
      for (size_t t = 0; t < kTokens; ++t) {
        const auto row = doubles(&x[t * kWidth], kWidth);
        std::vector<double> wanted(kRouted);
        for (size_t e = 0; e < kRouted; ++e) wanted[e] = product(w, e, row.data()) + static_cast<double>(bias[e]);
        const Choice choice = reference(wanted, correction, spec);
        for (size_t j = 0; j < spec.top_k; ++j) CHECK(dispatch.expert[t * spec.top_k + j] == choice.experts[j]);
        factors.insert(factors.end(), choice.factors.begin(), choice.factors.end());
      }
      check_near(dispatch.alpha, factors, 5e-6);
    }
  }
}

TEST_CASE("ops: a router's logit that is not finite makes all factors NaN") {
  for (const DeviceKind kind : devices()) {
    for (const RouterScores scores : {RouterScores::kSigmoid, RouterScores::kSoftmaxOfChosen}) {
      CAPTURE(device_name(kind));
      const RouterSpec spec = router(scores, 2, false, {}, 1);
      OpsFixture fixture(kind, moe_spec(Activation::kRelu, spec), limits_of(2));
      FeedForwardWeights weights{};
      weights.router = fixture.matrix(kExperts, kWidth, kF32Format, 1).panels;
      std::vector<float> bias(kExperts);
      bias[7] = NAN;
      weights.router.bias = fixture.upload(bias);
      const Pass pass(fixture, 2);
      fixture.write(fixture.at().normed, random_floats(2 * kWidth, 2));
      Dispatch dispatch;
      fixture.ops().choose(weights, spec, 2, nullptr, dispatch);
      for (const float alpha : dispatch.alpha) CHECK(std::isnan(alpha));
    }
  }
}

TEST_CASE("ops: a correction that is not a number makes all factors NaN") {
  for (const DeviceKind kind : devices()) {
    for (const ExpertGroups groups : {ExpertGroups{}, ExpertGroups{2, 1, 2}}) {
      CAPTURE(device_name(kind));
      const RouterSpec spec = router(RouterScores::kSigmoid, 2, true, groups, 1);
      OpsFixture fixture(kind, moe_spec(Activation::kRelu, spec), limits_of(2));
      FeedForwardWeights weights{};
      weights.router = fixture.matrix(kExperts, kWidth, kF32Format, 1).panels;
      std::vector<float> correction(kExperts);
      correction[7] = NAN;
      weights.router_correction = fixture.upload(correction);
      const Pass pass(fixture, 2);
      fixture.write(fixture.at().normed, random_floats(2 * kWidth, 2));
      Dispatch dispatch;
      fixture.ops().choose(weights, spec, 2, nullptr, dispatch);
      for (const float alpha : dispatch.alpha) CHECK(std::isnan(alpha));
    }
  }
}

}  // namespace
}  // namespace sida
