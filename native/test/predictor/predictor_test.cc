#include "predictor/predictor.h"

#include "engine/devices.h"
#include "predictor/expert_ranking.h"
#include "support/predictor_reference.h"

namespace {

constexpr size_t kVocab = 300;
constexpr size_t kWidth = 12;

std::shared_ptr<const TokenEmbedding> some_embedding() {
  const std::vector<float> values = floats(random_doubles(kVocab * kWidth, 1, 21));
  return std::make_shared<TokenEmbedding>(kVocab, kWidth, AlignedFloats(values.begin(), values.end()));
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
      for (size_t t = random() % 5; t > 0; --t) context_tokens.push_back(static_cast<int32_t>(random() % kVocab));
      context_offsets.push_back(static_cast<int32_t>(context_tokens.size()));
    }
  }
  TokenInput view() const { return {tokens, offsets, context_tokens, context_offsets}; }
};

struct Table {
  size_t k;
  std::vector<uint16_t> experts;
  std::vector<float> alpha, chance, logits;

  Table(const PredictorConfig& config, size_t tokens, size_t choices)
      : k(choices),
        experts(config.layers * tokens * k),
        alpha(experts.size()),
        chance(experts.size()),
        logits(config.layers * tokens * config.experts) {}
  ExpertTable view() { return {k, experts.data(), alpha.data(), chance.data(), logits.data()}; }
};

Table predicted(Predictor& predictor, const TokenInput& input, size_t k) {
  Table table(predictor.config(), input.tokens.size(), k);
  REQUIRE(predictor.predict(input, table.view()));
  return table;
}

Table stepped(Predictor& predictor, const std::vector<int32_t>& ids, const std::vector<int32_t>& tokens) {
  Table table(predictor.config(), tokens.size(), 3);
  REQUIRE(predictor.step(ids, tokens, table.view()));
  return table;
}

void check_same(const Table& a, const Table& b) {
  CHECK(a.experts == b.experts);
  CHECK(a.alpha == b.alpha);
  CHECK(a.logits == b.logits);
}

TEST_CASE("predictor: products of the embedding give the network's logits, in chunks and on several threads") {
  const auto embedding = some_embedding();
  const Tokens input;
  for (const auto& [blocks, summary] : grid(Sizes{0, 2}, kBoth)) {
    const PredictorWeights weights = some_weights(false, blocks, summary);
    const PredictorConfig& config = weights.layout.config();
    Predictor predictor(weights, embedding, 1), threaded(weights, embedding, 3);
    const Table table = predicted(predictor, input.view(), 2);
    check_same(predicted(threaded, input.view(), 2), table);

    PredictorNetwork network(config, NetworkUse::kForward);
    network.load(weights.values.data());
    EmbeddedBatch batch;
    PredictorActivations activations;
    std::vector<float> expected(table.logits.size());
    network.forward(batch.assign(input.view(), *embedding, summary), &activations, expected.data());
    // The predictor rounds weights and the rows before them to int8.
    CHECK(relative_error(table.logits, expected) < 0.02);
  }
}

TEST_CASE("predictor: alpha and chance are the softmax of the logits times each layer's sharpness") {
  const PredictorWeights weights = some_weights(false, false, true);
  const PredictorConfig& config = weights.layout.config();
  const std::vector<float> alpha = {1, 0.05f, 3}, chance = {1, 4, 0.5f};
  Predictor predictor(weights, some_embedding(), 2, {alpha, chance});
  const Tokens input;
  const size_t tokens = input.tokens.size();
  const Table table = predicted(predictor, input.view(), 3);
  for (size_t row = 0; row < 3 * tokens; ++row) {
    const auto softmax = [&](double sharpness) {
      Doubles sharp = doubles(&table.logits[row * config.experts], config.experts);
      for (double& logit : sharp) logit *= sharpness;
      return softmax64(sharp);
    };
    const Doubles alphas = softmax(alpha[row / tokens]), chances = softmax(chance[row / tokens]);
    for (size_t j = row * 3; j < row * 3 + 3; ++j) {
      REQUIRE(table.alpha[j] == doctest::Approx(alphas[table.experts[j]]).epsilon(1e-4));
      REQUIRE(table.chance[j] == doctest::Approx(chances[table.experts[j]]).epsilon(1e-4));
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
  const auto embedding = some_embedding();
  const std::vector<float> sharp(3, 20.0f);
  const Tokens input;
  Predictor one(weights, embedding, 1, {{}, sharp}), four(weights, embedding, 1, {{}, sharp, 4});
  const Table single = predicted(one, input.view(), 5), several = predicted(four, input.view(), 5);
  CHECK(single.experts == several.experts);
  CHECK(single.alpha == several.alpha);
  for (size_t i = 0; i < single.chance.size(); ++i) {
    REQUIRE(several.chance[i] == std::min(4 * single.chance[i], 1.0f));
  }
}

TEST_CASE("predictor: a sequence begun with its first tokens continues like one stepped through them") {
  for (const size_t blocks : {0, 2}) {
    Predictor predictor(some_weights(true, blocks, false), some_embedding(), 1);
    const std::vector<int32_t> prompts = {9, 3, 8, 250, 7}, offsets = {0, 4, 5}, ids = {1, 2};
    predictor.begin(ids, prompts, offsets);
    const Table begun = stepped(predictor, ids, {11, 12});

    const std::vector<int32_t> whole = {9, 3, 8, 250, 11, 7, 12}, ends = {0, 5, 7};
    const Table table = predicted(predictor, {whole, ends, {}, {}}, 3);
    for (const auto& [layer, row, j] : grid(Sizes{0, 1, 2}, Sizes{0, 1}, Sizes{0, 1, 2})) {
      const size_t from = (layer * 2 + row) * 3 + j, to = (layer * whole.size() + (row == 0 ? 4 : 6)) * 3 + j;
      REQUIRE(begun.experts[from] == table.experts[to]);
      REQUIRE(begun.alpha[from] == table.alpha[to]);
    }
    const std::vector<int32_t> outside = {static_cast<int32_t>(kVocab)}, one = {0, 1}, three = {3};
    CHECK_THROWS_AS(predictor.begin(three, outside, one), Error);
  }
}

TEST_CASE("predictor: a copy of a sequence goes on as the original would, and the original is not changed") {
  for (const size_t blocks : {0, 2}) {
    Predictor predictor(some_weights(true, blocks, false), some_embedding(), 1);
    const std::vector<int32_t> original = {1}, copy = {2}, twin = {3}, none = {9};
    for (const std::vector<int32_t>& ids : {original, twin}) {
      predictor.begin(ids, {}, {});
      for (int32_t token = 4; token < 40; ++token) stepped(predictor, ids, {token});
    }
    predictor.fork(original, copy);
    CHECK_THROWS_AS(predictor.fork(original, copy), Error);
    CHECK_THROWS_AS(predictor.fork(none, none), Error);
    stepped(predictor, copy, {77});
    check_same(stepped(predictor, original, {50}), stepped(predictor, twin, {50}));
    predictor.fork(twin, none);
    check_same(stepped(predictor, none, {77}), stepped(predictor, original, {77}));
  }
}

TEST_CASE("predictor: sequences without tokens have no predictions") {
  const std::vector<int32_t> offsets = {0, 0, 0}, context = {7}, context_offsets = {0, 1, 1};
  for (const auto& [causal, blocks] : grid(kBoth, Sizes{0, 2})) {
    Predictor predictor(some_weights(causal, blocks, true), some_embedding(), 1);
    predicted(predictor, {{}, offsets, context, context_offsets}, 1);
  }
  Predictor predictor(some_weights(true, 0, false), some_embedding(), 1);
  stepped(predictor, {}, {});
}

TEST_CASE("predictor: live sequences are counted, and their memory is freed") {
  Predictor predictor(some_weights(true, 0, false), some_embedding(), 1);
  const size_t before = predictor.bytes();
  const std::vector<int32_t> ids = {4, 5};
  predictor.begin(ids, {}, {});
  for (int i = 0; i < 40; ++i) stepped(predictor, ids, ids);
  const size_t live = predictor.bytes();
  CHECK(live >= before + 2 * 40 * 32 * sizeof(float));
  predictor.end(ids);
  CHECK(predictor.bytes() < live);
}

TEST_CASE("predictor: holds the products of the tokens that it has seen") {
  for (const bool summary : kBoth) {
    Predictor predictor(some_weights(false, 0, summary), some_embedding(), 1);
    constexpr size_t kProduct = 32 * sizeof(float);
    CHECK(predictor.bytes() < kVocab * kProduct);
    const auto bytes_after = [&](int32_t token) {
      const std::vector<int32_t> tokens = {token}, offsets = {0, 1};
      predicted(predictor, {tokens, offsets, tokens, offsets}, 1);
      return predictor.bytes();
    };
    const size_t one = bytes_after(0);
    CHECK(bytes_after(0) == one);
    size_t all = 0;
    for (size_t token = 1; token < kVocab; ++token) all = bytes_after(static_cast<int32_t>(token));
    const size_t products = (summary ? 2 : 1) * (kVocab - 1) * kProduct;
    CHECK(all - one >= products);
    CHECK(all - one < 2 * products);
  }
}

TEST_CASE("predictor: when one sequence cannot begin, none of its call begins") {
  Predictor predictor(some_weights(true, 0, false), some_embedding(), 1);
  const std::vector<int32_t> seven = {7}, again = {1, 2, 7}, both = {1, 2};
  predictor.begin(seven, {}, {});
  CHECK_THROWS_AS(predictor.begin(again, {}, {}), Error);
  predictor.begin(both, {}, {});
  stepped(predictor, seven, seven);
}

#ifdef SIDA_WITH_CUDA
std::unique_ptr<DeviceNetwork> on_gpu(const PredictorWeights& weights) {
  return make_device_network(DeviceKind::kCuda, weights);
}

// The logits of `table`, (layers, tokens, experts), of one token.
std::vector<float> logits_of(const Table& table, const PredictorConfig& config, size_t tokens, size_t token) {
  std::vector<float> all;
  for (size_t layer = 0; layer < config.layers; ++layer) {
    const auto row = table.logits.begin() + static_cast<ptrdiff_t>((layer * tokens + token) * config.experts);
    all.insert(all.end(), row, row + static_cast<ptrdiff_t>(config.experts));
  }
  return all;
}

TEST_CASE("predictor: on cuda, the network's logits, whatever the neighbours; the CPU's of a long sequence") {
  if (cuda_state().devices == 0) return;
  const auto embedding = some_embedding();
  const Tokens input;
  const size_t tokens = input.tokens.size();
  for (const auto& [form, hidden, softmax] : grid(Sizes{0, 1, 2}, Sizes{32, 21}, kBoth)) {
    if (form == 1 && hidden % 2 != 0) continue;
    PredictorWeights weights({.d_in = kWidth,
                              .hidden = hidden,
                              .layers = 3,
                              .experts = 20,
                              .causal = form == 0,
                              .bidirectional = form == 1,
                              .summary = form == 0,
                              .lstm_layers = form == 2 ? size_t{1} : size_t{2},
                              .attention_weights = softmax ? WeightFunction::kSoftmax : WeightFunction::kSparsemax});
    weights.initialize(9);
    const PredictorConfig& config = weights.layout.config();
    Predictor predictor(weights, embedding, 2, {}, {}, on_gpu(weights)), cpu(weights, embedding, 1);
    const Table table = predicted(predictor, input.view(), 2), expected = predicted(cpu, input.view(), 2);
    // Both round weights, to bf16 and to int8.
    CHECK(relative_error(table.logits, expected.logits) < 0.02);
    for (const size_t s : {size_t{3}, size_t{20}}) {
      const auto begin = static_cast<size_t>(input.offsets[s]), end = static_cast<size_t>(input.offsets[s + 1]);
      REQUIRE(end > begin);
      const std::vector<int32_t> own(input.tokens.begin() + input.offsets[s],
                                     input.tokens.begin() + input.offsets[s + 1]);
      const std::vector<int32_t> offsets = {0, static_cast<int32_t>(own.size())};
      const std::span<const int32_t> context = input.view().context(s);
      const std::vector<int32_t> context_offsets = {0, static_cast<int32_t>(context.size())};
      const Table alone = predicted(predictor, {own, offsets, context, context_offsets}, 2);
      for (size_t t = 0; t < own.size(); ++t) {
        const std::vector<float> found = logits_of(table, config, tokens, begin + t);
        REQUIRE(found == logits_of(alone, config, own.size(), t));
        const bool is_cpus = found == logits_of(expected, config, tokens, begin + t);
        REQUIRE(is_cpus == (own.size() > DeviceNetwork::kMostRows));
      }
    }
  }
}

TEST_CASE("predictor: on cuda, a logit that is not finite fails the table") {
  if (cuda_state().devices == 0) return;
  for (const PredictorPart part : {PredictorPart::kHeadBias, PredictorPart::kLstm1Bias, PredictorPart::kResidualBias}) {
    PredictorWeights weights = some_weights(true, 0, false);
    *weights.at(part) = std::nanf("");
    Predictor predictor(weights, some_embedding(), 1, {}, {}, on_gpu(weights));
    const std::vector<int32_t> tokens = {1, 2, 3}, offsets = {0, 3};
    Table table(predictor.config(), 3, 2);
    CHECK_FALSE(predictor.predict({tokens, offsets, {}, {}}, table.view()));
  }
}

TEST_CASE("predictor: cuda refuses networks without LSTMs and those that exceed what is set aside") {
  if (cuda_state().devices == 0) return;
  CHECK_THROWS_WITH(on_gpu(some_weights(true, 2, false)), doctest::Contains("without LSTMs"));
  PredictorWeights large({.d_in = kWidth, .hidden = 1024, .layers = 3, .experts = 20, .causal = true});
  CHECK_THROWS_WITH(on_gpu(large), doctest::Contains("more than the 31457280"));
  const PredictorWeights weights({.d_in = 512, .hidden = 256, .layers = 48, .experts = 128, .causal = true});
  const auto network = on_gpu(weights);  // fits
  CHECK(network != nullptr);
}
#endif

}  // namespace
