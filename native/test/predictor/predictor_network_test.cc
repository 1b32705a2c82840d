#include "predictor/predictor_network.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "doctest/doctest.h"
#include "predictor/predictor_stepper.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

// A predictor with random weights and biases, and sequences for it.
struct Case {
  PredictorConfig config;
  std::vector<uint32_t> lengths;
  PredictorLayout layout;
  Doubles weights;
  Doubles x;
  Doubles summaries;
  std::vector<float> weights_f;
  std::vector<float> x_f;
  std::vector<float> summaries_f;

  Case(const PredictorConfig& c, std::vector<uint32_t> sequence_lengths, double scale)
      : config(c),
        lengths(std::move(sequence_lengths)),
        layout(c),
        weights(random_doubles(layout.count(), scale, 11)),
        x(random_doubles(rows() * c.d_in, 1, 12)),
        summaries(random_doubles(lengths.size() * c.d_in, 1, 13)),
        weights_f(floats(weights)),
        x_f(floats(x)),
        summaries_f(floats(summaries)) {}

  size_t rows() const { return std::accumulate(lengths.begin(), lengths.end(), size_t{0}); }
  size_t logit_count() const { return config.layers * rows() * config.experts; }
  SequenceBatch batch() const { return {x_f.data(), lengths, config.summary ? summaries_f.data() : nullptr}; }
  Doubles reference(const Doubles& at) const {
    return reference_predictor(layout, at, x, lengths, config.summary ? summaries.data() : nullptr);
  }
};

std::vector<float> logits_of(const Case& c, const PredictorNetwork& network) {
  PredictorActivations activations;
  std::vector<float> logits(c.logit_count());
  network.forward(c.batch(), &activations, logits.data());
  return logits;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const PredictorConfig kTiny[] = {
    {.d_in = 3, .hidden = 4, .layers = 2, .experts = 5},
    {.d_in = 5, .hidden = 3, .layers = 1, .experts = 2, .causal = true},
    {.d_in = 2, .hidden = 5, .layers = 3, .experts = 3, .causal = true, .summary = true},
    {.d_in = 4, .hidden = 4, .layers = 2, .experts = 4, .summary = true},
    {.d_in = 3, .hidden = 6, .layers = 2, .experts = 3, .bidirectional = true},
    {.d_in = 4, .hidden = 4, .layers = 2, .experts = 3, .bidirectional = true, .summary = true},
    {.d_in = 3, .hidden = 4, .layers = 2, .experts = 3, .lstm_layers = 1},
    {.d_in = 3, .hidden = 5, .layers = 1, .experts = 3, .attention_weights = WeightFunction::kSoftmax},
    {.d_in = 3,
     .hidden = 4,
     .layers = 1,
     .experts = 3,
     .causal = true,
     .lstm_layers = 1,
     .attention_weights = WeightFunction::kSoftmax},
    {.d_in = 2, .hidden = 6, .layers = 1, .experts = 3, .bidirectional = true, .lstm_layers = 1},
    {.d_in = 3, .hidden = 16, .layers = 1, .experts = 3, .blocks = 1},
    {.d_in = 3,
     .hidden = 32,
     .layers = 2,
     .experts = 2,
     .causal = true,
     .blocks = 2,
     .summary = true},
};

TEST_CASE("predictor network: forward agrees with the reference in double") {
  for (const PredictorConfig& config : kTiny) {
    const Case c(config, {4, 1, 0, 7, 4}, 0.7);
    PredictorNetwork network(config, NetworkUse::kForward);
    network.load(c.weights_f.data());
    CHECK(relative_error(logits_of(c, network).data(), c.reference(c.weights).data(), c.logit_count()) <
          2e-6);
  }
  PredictorConfig large = {.d_in = 24, .hidden = 48, .layers = 3, .experts = 21, .summary = true};
  PredictorConfig both_ways = large;
  both_ways.bidirectional = true;
  PredictorConfig blocks = large;
  blocks.blocks = 3;
  PredictorConfig softmax = large;
  softmax.attention_weights = WeightFunction::kSoftmax;
  for (const PredictorConfig& config : {large, both_ways, blocks, softmax}) {
    const Case c(config, {36, 2, 70, 150}, 0.2);
    PredictorNetwork network(c.config, NetworkUse::kForward);
    network.load(c.weights_f.data());
    CHECK(relative_error(logits_of(c, network).data(), c.reference(c.weights).data(), c.logit_count()) <
          5e-6);
  }
}

TEST_CASE("predictor network: the gradient of every tensor agrees with finite differences") {
  for (const PredictorConfig& config : kTiny) {
    const Case c(config, {4, 1, 0, 7, 4}, 0.7);
    const Doubles dlogits = random_doubles(c.logit_count(), 1, 14);
    const auto loss = [&](const Doubles& weights) {
      const Doubles logits = c.reference(weights);
      return std::inner_product(logits.begin(), logits.end(), dlogits.begin(), 0.0);
    };
    const Doubles expected = numeric_gradient(c.weights, loss);
    PredictorNetwork network(config, NetworkUse::kTraining);
    network.load(c.weights_f.data());
    PredictorActivations activations;
    std::vector<float> logits(c.logit_count());
    std::vector<float> gradients(c.layout.count(), 0.0f);
    network.forward(c.batch(), &activations, logits.data());
    network.backward(c.batch(), &activations, floats(dlogits).data(), gradients.data());
    for (const PredictorTensor& tensor : c.layout.tensors()) {
      CAPTURE(tensor.name);
      CHECK(relative_error(&gradients[0] + tensor.offset, &expected[0] + tensor.offset, tensor.count) < 1e-5);
    }
  }
}

TEST_CASE("predictor network: the LSTM's and the attention's input gradients agree with finite differences") {
  const size_t h = 4;
  const size_t width = 3;
  const size_t tokens = 6;
  const Doubles wi = random_doubles(4 * h * width, 0.7, 1);
  const Doubles wh = random_doubles(4 * h * h, 0.7, 2);
  const Doubles bias = random_doubles(4 * h, 0.7, 3);
  const Doubles x = random_doubles(tokens * width, 1, 4);
  const Doubles dy = random_doubles(tokens * h, 1, 5);
  AlignedFloats room[4];
  const std::vector<float> wi_f = floats(wi), wh_f = floats(wh), bias_f = floats(bias), x_f = floats(x);
  LstmLayer layer{h,
                  pack_transposed(wi_f.data(), 4 * h, width, &room[0]),
                  pack_transposed(wh_f.data(), 4 * h, h, &room[1]),
                  pack_rows(wi_f.data(), width, 4 * h, width, &room[2]),
                  pack_rows(wh_f.data(), h, 4 * h, h, &room[3]),
                  bias_f.data()};
  const uint32_t lengths[] = {tokens};
  TimeMajorRows order;
  order.assign(lengths);
  LstmActivations activations;
  LstmScratch scratch;
  std::vector<float> dwi(wi.size()), dwh(wh.size()), dbias(bias.size()), dx(x.size());
  lstm_forward(layer, order, x_f.data(), &activations);
  lstm_backward(layer, order, x_f.data(), activations, floats(dy).data(),
                {dwi.data(), dwh.data(), dbias.data()}, dx.data(), &scratch);
  const auto lstm_loss = [&](const Doubles& at) {
    const Doubles y = reference_lstm(wi.data(), wh.data(), bias.data(), at, tokens, width, h);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  CHECK(relative_error(dx.data(), numeric_gradient(x, lstm_loss).data(), x.size()) < 1e-5);

  using enum WeightFunction;
  for (const SelfAttentionForm form : {SelfAttentionForm{}, {true, kSparsemax}, {false, kSoftmax}, {true, kSoftmax}}) {
    const Doubles y = random_doubles(tokens * h, 1.5, 6);
    const std::vector<float> y_f = floats(y);
    std::vector<float> weights(tokens * tokens), out(y.size()), gradient(y.size());
    SelfAttentionScratch attention;
    self_attention_forward(y_f.data(), tokens, h, form, weights.data(), out.data(), &attention);
    self_attention_backward(y_f.data(), weights.data(), floats(dy).data(), tokens, h, form.weights,
                            gradient.data(), &attention);
    // A causal pass sees 21 of the 36 pairs. SparseMax drops more of them, softmax none.
    const auto zeros = std::count(weights.begin(), weights.end(), 0.0f);
    const auto unseen = form.causal ? 15 : 0;
    CHECK((form.weights == kSoftmax ? zeros == unseen : zeros > unseen));
    const auto attended_of = [&](const Doubles& at) {
      return reference_attention(at, tokens, h, form.causal, form.weights);
    };
    const auto attention_loss = [&](const Doubles& at) {
      const Doubles attended = attended_of(at);
      return std::inner_product(attended.begin(), attended.end(), dy.begin(), 0.0);
    };
    CHECK(relative_error(out.data(), attended_of(y).data(), out.size()) < 1e-6);
    CHECK(relative_error(gradient.data(), numeric_gradient(y, attention_loss).data(), y.size()) < 1e-5);
  }
}

TEST_CASE("self-attention: rows in tiles have the bits of all rows at once, in memory that grows with the tokens") {
  using enum WeightFunction;
  for (const size_t tokens : {1, 63, 64, 65, 200}) {
    const size_t h = 24;
    const std::vector<float> y = floats(random_doubles(tokens * h, 1.5, 6));
    for (const SelfAttentionForm form : {SelfAttentionForm{}, {true, kSparsemax}, {false, kSoftmax}, {true, kSoftmax}}) {
      std::vector<float> weights(tokens * tokens), all(y.size()), tiled(y.size());
      SelfAttentionScratch scratch;
      self_attention_forward(y.data(), tokens, h, form, weights.data(), all.data(), &scratch);
      CHECK(scratch.scores.empty());
      self_attention(y.data(), tokens, h, form, tiled.data(), &scratch);
      CHECK(std::memcmp(all.data(), tiled.data(), all.size() * sizeof(float)) == 0);
      CHECK(scratch.scores.size() <= 64 * tokens);
    }
  }
}

TEST_CASE("predictor network: gradients accumulate, and reused activations do not affect them") {
  const Case c(kTiny[0], {4, 2}, 0.7);
  const Case longer(kTiny[0], {9, 3, 5}, 0.7);
  PredictorNetwork network(c.config, NetworkUse::kTraining);
  network.load(c.weights_f.data());
  const std::vector<float> dlogits = floats(random_doubles(c.logit_count(), 1, 14));
  const auto gradient = [&](PredictorActivations* activations, int times) {
    std::vector<float> logits(c.logit_count());
    std::vector<float> sums(c.layout.count(), 0.0f);
    for (int i = 0; i < times; ++i) {
      network.forward(c.batch(), activations, logits.data());
      network.backward(c.batch(), activations, dlogits.data(), sums.data());
    }
    return sums;
  };
  PredictorActivations fresh;
  PredictorActivations used;
  std::vector<float> logits(longer.logit_count());
  network.forward(longer.batch(), &used, logits.data());
  const std::vector<float> once = gradient(&fresh, 1);
  CHECK(same_bits(once, gradient(&used, 1)));
  std::vector<float> twice = gradient(&fresh, 2);
  for (float& v : twice) v /= 2;
  CHECK(relative_error(twice.data(), Doubles(once.begin(), once.end()).data(), once.size()) < 1e-6);
}

TEST_CASE("predictor network: a sequence's bits do not depend on its batch") {
  const PredictorConfig both_ways = {
      .d_in = 12, .hidden = 48, .layers = 2, .experts = 9, .bidirectional = true};
  const PredictorConfig blocks = {.d_in = 12, .hidden = 48, .layers = 2, .experts = 9, .blocks = 2};
  for (const PredictorConfig& config : {both_ways, blocks}) {
    const Case all(config, {5, 33, 1, 12}, 0.3);
    PredictorNetwork network(all.config, NetworkUse::kForward);
    network.load(all.weights_f.data());
    const std::vector<float> together = logits_of(all, network);
    PredictorActivations activations;
    size_t row = 0;
    for (const uint32_t length : all.lengths) {
      const std::vector<uint32_t> lengths = {length};
      std::vector<float> alone(all.config.layers * length * all.config.experts);
      network.forward({all.x_f.data() + row * all.config.d_in, lengths}, &activations, alone.data());
      for (size_t l = 0; l < all.config.layers; ++l) {
        const size_t count = length * all.config.experts;
        CHECK(std::memcmp(&alone[l * count], &together[(l * all.rows() + row) * all.config.experts],
                          count * sizeof(float)) == 0);
      }
      row += length;
    }
  }
}

TEST_CASE("predictor stepper: steps give the bits of the whole causal pass") {
  const PredictorConfig plain = {.d_in = 12, .hidden = 48, .layers = 2, .experts = 9, .causal = true};
  PredictorConfig summarized = plain;
  summarized.summary = true;
  PredictorConfig blocks = summarized;
  blocks.blocks = 2;
  PredictorConfig single = plain;
  single.lstm_layers = 1;
  PredictorConfig softmax = summarized;
  softmax.attention_weights = WeightFunction::kSoftmax;
  for (const PredictorConfig& config : {plain, summarized, blocks, single, softmax}) {
    const bool summary = config.summary;
    const Case c(config, {70, 33, 36}, 0.3);
    PredictorNetwork network(config, NetworkUse::kForward);
    network.load(c.weights_f.data());
    const std::vector<float> whole = logits_of(c, network);
    PredictorStepper stepper(network);
    std::vector<PredictorState> states(3);
    for (size_t s = 0; s < 3; ++s) {
      std::vector<float> product(config.hidden);
      if (summary) network.summary_products(c.summaries_f.data() + s * config.d_in, 1, product.data());
      stepper.begin(&states[s], summary ? product.data() : nullptr);
    }
    // Sequence 1 begins late, sequence 2 ends early: the batch of a step changes.
    const size_t first[] = {0, 70, 103};
    for (size_t step = 0; step < 70; ++step) {
      std::vector<PredictorState*> active;
      std::vector<size_t> rows;
      std::vector<float> x;
      for (size_t s = 0; s < 3; ++s) {
        if ((s == 1 && step < 20) || states[s].length == c.lengths[s]) continue;
        active.push_back(&states[s]);
        rows.push_back(first[s] + states[s].length);
        const float* from = c.x_f.data() + rows.back() * config.d_in;
        x.insert(x.end(), from, from + config.d_in);
      }
      std::vector<float> products(active.size() * config.hidden);
      std::vector<float> logits(active.size() * config.layers * config.experts);
      network.compress(x.data(), active.size(), products.data());
      stepper.step(active, products.data(), logits.data());
      for (size_t l = 0; l < config.layers; ++l) {
        for (size_t i = 0; i < rows.size(); ++i) {
          REQUIRE(std::memcmp(&logits[(i * config.layers + l) * config.experts],
                              &whole[(l * c.rows() + rows[i]) * config.experts],
                              config.experts * sizeof(float)) == 0);
        }
      }
    }
    CHECK(states[0].length == 70);
    CHECK(states[1].length == 33);
    CHECK(states[2].length == 36);
  }
}

TEST_CASE("predictor stepper: a state that begins again keeps nothing of its last sequence") {
  const Case c({.d_in = 4, .hidden = 8, .layers = 1, .experts = 3, .causal = true}, {5}, 0.5);
  PredictorNetwork network(c.config, NetworkUse::kForward);
  network.load(c.weights_f.data());
  PredictorStepper stepper(network);
  PredictorState state;
  PredictorState* states[] = {&state};
  std::vector<float> runs[2];
  for (std::vector<float>& run : runs) {
    stepper.begin(&state, nullptr);
    for (size_t t = 0; t < 5; ++t) {
      float products[8];
      run.resize(run.size() + 3);
      network.compress(c.x_f.data() + t * 4, 1, products);
      stepper.step(states, products, run.data() + t * 3);
    }
  }
  CHECK(same_bits(runs[0], runs[1]));
  CHECK(same_bits(runs[0], logits_of(c, network)));
}

}  // namespace
}  // namespace sida
