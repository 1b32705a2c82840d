// Penalties and biases against a plain reference in float64.
#include "ops/logit_adjustments.h"

#include "ops/pick_tokens.h"
#include "support/test.h"

namespace {

constexpr size_t kVocab = 500;

struct Request {
  std::vector<int32_t> prompt, generated;
  std::map<int32_t, double> biases;
  double presence = 0, frequency = 0, repetition = 1;
};

std::vector<float> random_logits(unsigned seed) {
  std::vector<float> logits = random_floats(kVocab, seed);
  for (float& logit : logits) logit *= 12;
  return logits;
}

/// Every token on its own, from the whole texts.
std::vector<double> reference(const std::vector<float>& logits, const Request& request) {
  std::vector<double> out(logits.begin(), logits.end());
  for (size_t id = 0; id < out.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    const auto count = std::count(request.generated.begin(), request.generated.end(), token);
    const bool in_prompt = std::find(request.prompt.begin(), request.prompt.end(), token) != request.prompt.end();
    if (request.biases.contains(token)) out[id] += request.biases.at(token);
    if (in_prompt || count > 0) out[id] = out[id] > 0 ? out[id] / request.repetition : out[id] * request.repetition;
    out[id] -= static_cast<double>(count) * request.frequency + (count > 0 ? request.presence : 0);
  }
  return out;
}

/// What the ops take of a request.
struct Arrays {
  std::vector<SeenToken> seen;
  std::vector<TokenBias> biases;
  LogitAdjustments view;

  explicit Arrays(const Request& request) {
    std::map<int32_t, uint32_t> times;
    for (const int32_t token : request.prompt) times[token] = 0;
    for (const int32_t token : request.generated) ++times[token];
    for (const auto& [id, count] : times) seen.push_back({id, count});
    for (const auto& [id, bias] : request.biases) biases.push_back({id, bias});
    view = {seen, biases, request.presence, request.frequency, request.repetition};
  }
};

std::vector<float> adjusted(const std::vector<float>& logits, const Request& request) {
  return adjusted_logits(logits, Arrays(request).view);
}

TEST_CASE("logit adjustments: each logit is that of the reference, rounded once") {
  std::mt19937 random(7);
  const auto tokens = [&](size_t count, int32_t most) {
    std::vector<int32_t> out(count);
    for (int32_t& token : out) token = static_cast<int32_t>(random() % static_cast<unsigned>(most));
    return out;
  };
  using Penalties = std::pair<double, double>;
  for (const auto& [repetition, penalties] :
       grid(std::vector{1.0, 1.3, 0.8}, std::vector<Penalties>{{0, 0}, {1.7, 0}, {0, 0.3}, {-2, 2}})) {
    const auto [presence, frequency] = penalties;
    CASE(repetition, presence, frequency);
    const Request request{.prompt = tokens(100, kVocab),
                          .generated = tokens(60, 40),
                          .biases = {{3, 100}, {7, -100}, {499, 0.1}},
                          .presence = presence,
                          .frequency = frequency,
                          .repetition = repetition};
    const std::vector<float> logits = random_logits(11), found = adjusted(logits, request);
    const std::vector<double> expected = reference(logits, request);
    REQUIRE(found.size() == kVocab);
    // The reference subtracts in another order, which may move the rounding by one place.
    for (size_t id = 0; id < kVocab; ++id) {
      REQUIRE(std::abs(found[id] - expected[id]) <= std::abs(expected[id]) * 0x1p-23);
    }
  }
}

TEST_CASE("logit adjustments: logits of other tokens keep their bits, and none becomes infinite") {
  const std::vector<float> logits = random_logits(5);
  const std::vector<float> found = adjusted(logits, {{1}, {2, 2}, {{3, -100}}, 1, 1, 1.5});
  for (size_t id = 0; id < kVocab; ++id) {
    CASE(id);
    CHECK((found[id] == logits[id]) == (id == 0 || id > 3));
  }
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> large{1, -1, 0, kMost, -kMost};
  for (const double repetition : {5e-324, 1.7e308}) {
    const std::vector<float> all = adjusted(large, {{0, 1, 2, 3, 4}, {3}, {{3, 100}}, 2, 2, repetition});
    for (const float logit : all) CHECK(std::isfinite(logit));
  }
}

TEST_CASE("logit adjustments: tokens are picked from the adjusted logits, log-probabilities are the model's") {
  const std::vector<float> logits = random_logits(3);
  for (const float temperature : {0.0f, 0.9f}) {
    CASE(temperature);
    const Request request{{}, {}, {{42, 100}}, 0, 0, 1};
    const Arrays arrays(request);
    const Sampling sampling{temperature, 0.9f, 0, 20, 5, 6};
    std::vector<RankedToken> top(3), own(3);
    const PickedToken picked = pick_token(logits, sampling, top, arrays.view);
    pick_token(logits, sampling, own);
    CHECK(picked.id == 42);
    double logprob;
    token_logprobs(logits, std::vector<int32_t>{42}, {&logprob, 1});
    CHECK(picked.logprob == logprob);
    for (size_t i = 0; i < top.size(); ++i) {
      CHECK(top[i].id == own[i].id);
      CHECK(top[i].logprob == own[i].logprob);
    }
    // What the adjusted row alone would give.
    const Request penalized{{}, {picked.id, 1, 2, 2}, {}, 1.5, 1, 1.2};
    CHECK(pick_token(logits, sampling, {}, Arrays(penalized).view).id ==
          pick_token(adjusted(logits, penalized), sampling, {}).id);
  }
}

}  // namespace
