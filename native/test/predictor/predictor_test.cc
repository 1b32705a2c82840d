#include "predictor/predictor.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "doctest/doctest.h"
#include "predictor/expert_ranking.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

constexpr size_t kVocab = 300;
constexpr size_t kWidth = 12;

TokenEmbedding some_embedding() {
  TokenEmbedding embedding(kVocab, kWidth);
  const std::vector<float> values = floats(random_doubles(kVocab * kWidth, 1, 21));
  std::copy(values.begin(), values.end(), embedding.row(0));
  return embedding;
}

PredictorWeights some_weights(bool causal, size_t blocks, bool summary) {
  PredictorWeights weights({.d_in = kWidth,
                            .hidden = 32,
                            .layers = 3,
                            .experts = 20,
                            .causal = causal,
                            .bidirectional = !causal && blocks == 0,
                            .blocks = blocks,
                            .summary = summary});
  weights.initialize(9);
  return weights;
}

// Many sequences, so that there are several chunks; one is longer than a chunk.
struct Tokens {
  std::vector<int32_t> tokens, offsets{0}, context_tokens, context_offsets{0};

  Tokens() {
    std::mt19937_64 random(4);
    for (size_t s = 0; s < 50; ++s) {
      const size_t length = s == 20 ? 1100 : random() % 30;
      for (size_t t = 0; t < length; ++t) tokens.push_back(static_cast<int32_t>(random() % kVocab));
      offsets.push_back(static_cast<int32_t>(tokens.size()));
      for (size_t t = random() % 5; t > 0; --t)
        context_tokens.push_back(static_cast<int32_t>(random() % kVocab));
      context_offsets.push_back(static_cast<int32_t>(context_tokens.size()));
    }
  }
  TokenInput view() const { return {tokens, offsets, context_tokens, context_offsets}; }
};

struct Table {
  std::vector<uint16_t> experts;
  std::vector<float> alpha, chance, logits;

  Table(const PredictorConfig& config, size_t tokens, size_t k)
      : experts(config.layers * tokens * k),
        alpha(experts.size()),
        chance(experts.size()),
        logits(config.layers * tokens * config.experts) {}
  ExpertTable view(size_t k) { return {k, experts.data(), alpha.data(), chance.data(), logits.data()}; }
};

TEST_CASE(
    "predictor: products of the embedding give the network's logits, in chunks and on several threads") {
  const TokenEmbedding embedding = some_embedding();
  const Tokens input;
  for (const size_t blocks : {0, 2}) {
    for (const bool summary : {false, true}) {
      const PredictorWeights weights = some_weights(false, blocks, summary);
      const PredictorConfig& config = weights.layout.config();
      Predictor predictor(weights, embedding, 1);
      Table table(config, input.tokens.size(), 2);
      REQUIRE(predictor.predict(input.view(), table.view(2)));

      PredictorNetwork network(config, NetworkUse::kForward);
      network.load(weights.values.data());
      EmbeddedBatch batch;
      PredictorActivations activations;
      std::vector<float> expected(table.logits.size());
      network.forward(batch.assign(input.view(), embedding, summary), &activations, expected.data());
      // A mean of products is the product of the mean but for rounding; without a summary it is the bits.
      CHECK(relative_error(table.logits.data(), Doubles(expected.begin(), expected.end()).data(),
                           expected.size()) < (summary ? 1e-5 : 1e-30));

      Predictor threaded(weights, embedding, 3);
      Table other(config, input.tokens.size(), 2);
      REQUIRE(threaded.predict(input.view(), other.view(2)));
      CHECK(other.logits == table.logits);
      CHECK(other.experts == table.experts);
      CHECK(other.alpha == table.alpha);
    }
  }
}

TEST_CASE("predictor: alpha and chance are the softmax of the logits times each layer's sharpness") {
  const PredictorWeights weights = some_weights(false, false, true);
  const PredictorConfig& config = weights.layout.config();
  const std::vector<float> alpha = {1, 0.05f, 3}, chance = {1, 4, 0.5f};
  Predictor predictor(weights, some_embedding(), 2, {alpha, chance});
  const Tokens input;
  const size_t tokens = input.tokens.size();
  Table table(config, tokens, 3);
  REQUIRE(predictor.predict(input.view(), table.view(3)));
  for (size_t row = 0; row < 3 * tokens; ++row) {
    const float* logits = table.logits.data() + row * config.experts;
    const auto softmax = [&](size_t expert, double sharpness) {
      double sum = 0;
      for (size_t e = 0; e < config.experts; ++e) sum += std::exp(logits[e] * sharpness);
      return std::exp(logits[expert] * sharpness) / sum;
    };
    for (size_t j = row * 3; j < row * 3 + 3; ++j) {
      const size_t expert = table.experts[j];
      REQUIRE(table.alpha[j] == doctest::Approx(softmax(expert, alpha[row / tokens])).epsilon(1e-4));
      REQUIRE(table.chance[j] == doctest::Approx(softmax(expert, chance[row / tokens])).epsilon(1e-4));
    }
  }
  const std::vector<float> few = {1, 1}, none = {1, 0, 1}, nan = {1, 1, std::nanf("")};
  for (const std::vector<float>& bad : {few, none, nan}) {
    CHECK_THROWS_AS(Predictor(weights, some_embedding(), 1, {bad, {}}), Error);
    CHECK_THROWS_AS(Predictor(weights, some_embedding(), 1, {{}, bad}), Error);
  }
}

TEST_CASE("predictor: a chance with several choices is that many times the softmax, at most 1") {
  const PredictorWeights weights = some_weights(true, 2, false);
  const TokenEmbedding embedding = some_embedding();
  const std::vector<float> sharp(3, 20.0f);
  const Tokens input;
  Predictor one(weights, embedding, 1, {{}, sharp}), four(weights, embedding, 1, {{}, sharp, 4});
  Table single(one.config(), input.tokens.size(), 5), several(one.config(), input.tokens.size(), 5);
  REQUIRE(one.predict(input.view(), single.view(5)));
  REQUIRE(four.predict(input.view(), several.view(5)));
  CHECK(single.experts == several.experts);
  CHECK(single.alpha == several.alpha);
  for (size_t i = 0; i < single.chance.size(); ++i) {
    REQUIRE(several.chance[i] == std::min(4 * single.chance[i], 1.0f));
  }
}

TEST_CASE("predictor: a sequence begun with its first tokens continues like one stepped through them") {
  for (const size_t blocks : {0, 2}) {
    Predictor predictor(some_weights(true, blocks, false), some_embedding(), 1);
    const std::vector<int32_t> prompts = {9, 3, 8, 250, 7}, offsets = {0, 4, 5}, ids = {1, 2}, last = {11, 12};
    predictor.begin(ids, prompts, offsets);
    Table begun(predictor.config(), 2, 3);
    REQUIRE(predictor.step(ids, last, begun.view(3)));

    const std::vector<int32_t> whole = {9, 3, 8, 250, 11, 7, 12}, ends = {0, 5, 7};
    Table table(predictor.config(), whole.size(), 3);
    REQUIRE(predictor.predict({whole, ends, {}, {}}, table.view(3)));
    for (size_t layer = 0; layer < 3; ++layer) {
      for (const auto& [row, at] : {std::pair<size_t, size_t>{0, 4}, {1, 6}}) {
        for (size_t j = 0; j < 3; ++j) {
          const size_t from = (layer * 2 + row) * 3 + j, to = (layer * whole.size() + at) * 3 + j;
          REQUIRE(begun.experts[from] == table.experts[to]);
          REQUIRE(begun.alpha[from] == table.alpha[to]);
        }
      }
    }
    const std::vector<int32_t> outside = {static_cast<int32_t>(kVocab)}, one = {0, 1}, three = {3};
    CHECK_THROWS_AS(predictor.begin(three, outside, one), Error);
  }
}

TEST_CASE("predictor: a copy of a sequence goes on as the original would, and the original is not changed") {
  for (const size_t blocks : {0, 2}) {
    Predictor predictor(some_weights(true, blocks, false), some_embedding(), 1);
    const std::vector<int32_t> original = {1}, copy = {2}, twin = {3}, none = {9};
    for (const std::vector<int32_t>& ids : {original, twin}) predictor.begin(ids, {}, {});
    Table table(predictor.config(), 1, 3), expected(predictor.config(), 1, 3);
    for (int32_t token = 4; token < 40; ++token) {
      const std::vector<int32_t> tokens = {token};
      for (const std::vector<int32_t>& ids : {original, twin}) REQUIRE(predictor.step(ids, tokens, table.view(3)));
    }
    predictor.fork(original, copy);
    CHECK_THROWS_AS(predictor.fork(original, copy), Error);
    CHECK_THROWS_AS(predictor.fork(none, none), Error);
    const std::vector<int32_t> aside = {77}, next = {50};
    REQUIRE(predictor.step(copy, aside, table.view(3)));
    REQUIRE(predictor.step(original, next, table.view(3)));
    REQUIRE(predictor.step(twin, next, expected.view(3)));
    CHECK(table.experts == expected.experts);
    CHECK(table.alpha == expected.alpha);
    predictor.fork(twin, none);
    for (const std::vector<int32_t>& ids : {none, original}) {
      REQUIRE(predictor.step(ids, aside, ids == none ? table.view(3) : expected.view(3)));
    }
    CHECK(table.alpha == expected.alpha);
  }
}

TEST_CASE("predictor: sequences without tokens have no predictions") {
  const std::vector<int32_t> offsets = {0, 0, 0}, context = {7};
  const std::vector<int32_t> context_offsets = {0, 1, 1};
  for (const bool causal : {false, true}) {
    for (const size_t blocks : {0, 2}) {
      Predictor predictor(some_weights(causal, blocks, true), some_embedding(), 1);
      Table table(predictor.config(), 0, 1);
      CHECK(predictor.predict({{}, offsets, context, context_offsets}, table.view(1)));
    }
  }
  Predictor stepped(some_weights(true, 0, false), some_embedding(), 1);
  Table table(stepped.config(), 0, 1);
  CHECK(stepped.step({}, {}, table.view(1)));
}

TEST_CASE("predictor: live sequences are counted, and their memory is freed") {
  Predictor predictor(some_weights(true, 0, false), some_embedding(), 1);
  const size_t before = predictor.bytes();
  CHECK(before >= kVocab * 32 * sizeof(float));
  const std::vector<int32_t> ids = {4, 5};
  predictor.begin(ids, {}, {});
  Table table(predictor.config(), 2, 1);
  for (int i = 0; i < 40; ++i) REQUIRE(predictor.step(ids, ids, table.view(1)));
  const size_t live = predictor.bytes();
  CHECK(live >= before + 2 * 40 * 32 * sizeof(float));
  predictor.end(ids);
  CHECK(predictor.bytes() < live);
}

TEST_CASE("predictor: when one sequence cannot begin, none of its call begins") {
  Predictor predictor(some_weights(true, 0, false), some_embedding(), 1);
  const std::vector<int32_t> seven = {7}, again = {1, 2, 7}, both = {1, 2};
  predictor.begin(seven, {}, {});
  CHECK_THROWS_AS(predictor.begin(again, {}, {}), Error);
  predictor.begin(both, {}, {});
  Table table(predictor.config(), 1, 1);
  CHECK(predictor.step(seven, seven, table.view(1)));
}

}  // namespace
}  // namespace sida
