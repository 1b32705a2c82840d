#include "predictor/predictor_network.h"

#include "predictor/predictor_stepper.h"
#include "support/predictor_reference.h"

namespace {

using enum WeightFunction;

// A predictor with random weights and biases, and sequences for it.
struct Case {
  PredictorConfig config;
  std::vector<uint32_t> lengths;
  PredictorLayout layout{config};
  size_t rows = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  size_t logit_count = config.layers * rows * config.experts;
  Doubles weights, x = random_doubles(rows * config.d_in, 1, 12);
  Doubles summaries = random_doubles(lengths.size() * config.d_in, 1, 13);
  std::vector<float> x_f = floats(x), summaries_f = floats(summaries);
  PredictorNetwork network;
  PredictorActivations activations{};

  Case(const PredictorConfig& c, std::vector<uint32_t> sequences, double scale, NetworkUse use = NetworkUse::kForward)
      : config(c), lengths(std::move(sequences)), weights(random_doubles(layout.count(), scale, 11)), network(c, use) {
    network.load(floats(weights).data());
  }
  SequenceBatch batch() const { return {x_f.data(), lengths, config.summary ? summaries_f.data() : nullptr}; }
  Doubles reference(const Doubles& at) const { return ReferencePredictor{layout, at}.logits(x, lengths, summaries); }
  std::vector<float> logits() {
    std::vector<float> logits(logit_count);
    network.forward(batch(), &activations, logits.data());
    return logits;
  }
};

const PredictorConfig kTiny[] = {
    {.d_in = 3, .hidden = 4, .layers = 2, .experts = 5},
    {.d_in = 5, .hidden = 3, .layers = 1, .experts = 2, .causal = true},
    {.d_in = 2, .hidden = 5, .layers = 3, .experts = 3, .causal = true, .summary = true},
    {.d_in = 4, .hidden = 4, .layers = 2, .experts = 4, .summary = true},
    {.d_in = 3, .hidden = 6, .layers = 2, .experts = 3, .bidirectional = true},
    {.d_in = 4, .hidden = 4, .layers = 2, .experts = 3, .bidirectional = true, .summary = true},
    {.d_in = 3, .hidden = 4, .layers = 2, .experts = 3, .lstm_layers = 1},
    {.d_in = 3, .hidden = 5, .layers = 1, .experts = 3, .attention_weights = kSoftmax},
    {.d_in = 3,
     .hidden = 4,
     .layers = 1,
     .experts = 3,
     .causal = true,
     .lstm_layers = 1,
     .attention_weights = kSoftmax},
    {.d_in = 2, .hidden = 6, .layers = 1, .experts = 3, .bidirectional = true, .lstm_layers = 1},
    {.d_in = 3, .hidden = 16, .layers = 1, .experts = 3, .blocks = 1},
    {.d_in = 3, .hidden = 32, .layers = 2, .experts = 2, .causal = true, .blocks = 2, .summary = true},
};

TEST_CASE("predictor network: forward agrees with the reference in double") {
  const auto check = [](const PredictorConfig& config, const std::vector<uint32_t>& lengths, double scale,
                        double tolerance) {
    Case c(config, lengths, scale);
    CHECK(relative_error(c.logits(), c.reference(c.weights)) < tolerance);
  };
  for (const PredictorConfig& config : kTiny) check(config, {4, 1, 0, 7, 4}, 0.7, 2e-6);
  for (int form = 0; form < 4; ++form) {
    check({.d_in = 24,
           .hidden = 48,
           .layers = 3,
           .experts = 21,
           .bidirectional = form == 1,
           .blocks = form == 2 ? 3u : 0,
           .summary = true,
           .attention_weights = form == 3 ? kSoftmax : kSparsemax},
          {36, 2, 70, 150}, 0.2, 5e-6);
  }
}

TEST_CASE("predictor network: the gradient of every tensor agrees with finite differences") {
  for (const PredictorConfig& config : kTiny) {
    Case c(config, {4, 1, 0, 7, 4}, 0.7, NetworkUse::kTraining);
    const Doubles dlogits = random_doubles(c.logit_count, 1, 14);
    const Doubles expected =
        numeric_gradient(c.weights, [&](const Doubles& weights) { return dot(c.reference(weights), dlogits); });
    std::vector<float> gradients(c.layout.count(), 0.0f);
    c.logits();
    c.network.backward(c.batch(), &c.activations, floats(dlogits).data(), gradients.data());
    for (const PredictorTensor& tensor : c.layout.tensors()) {
      CASE(tensor.name);
      CHECK(relative_error(part_of(gradients, tensor.offset, tensor.count),
                           part_of(expected, tensor.offset, tensor.count)) < 1e-5);
    }
  }
}

TEST_CASE("predictor network: the LSTM's and the attention's input gradients agree with finite differences") {
  const size_t h = 4, width = 3, tokens = 6;
  const Doubles wi = random_doubles(4 * h * width, 0.7, 1), wh = random_doubles(4 * h * h, 0.7, 2);
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
  lstm_backward(layer, order, x_f.data(), activations, floats(dy).data(), {dwi.data(), dwh.data(), dbias.data()},
                dx.data(), &scratch);
  const auto lstm_loss = [&](const Doubles& at) {
    return dot(reference_lstm(wi.data(), wh.data(), bias.data(), at, width, h), dy);
  };
  CHECK(relative_error(dx, numeric_gradient(x, lstm_loss)) < 1e-5);

  for (const SelfAttentionForm form : {SelfAttentionForm{}, {true, kSparsemax}, {false, kSoftmax}, {true, kSoftmax}}) {
    const Doubles y = random_doubles(tokens * h, 1.5, 6);
    const std::vector<float> y_f = floats(y);
    std::vector<float> weights(tokens * tokens), out(y.size()), gradient(y.size());
    SelfAttentionScratch attention;
    self_attention_forward(y_f.data(), tokens, h, form, weights.data(), out.data(), &attention);
    self_attention_backward(y_f.data(), weights.data(), floats(dy).data(), tokens, h, form.weights, gradient.data(),
                            &attention);
    // A causal pass sees 21 of the 36 pairs. SparseMax drops more of them, softmax none.
    const auto zeros = std::count(weights.begin(), weights.end(), 0.0f);
    const auto unseen = form.causal ? 15 : 0;
    CHECK((form.weights == kSoftmax ? zeros == unseen : zeros > unseen));
    const auto attended = [&](const Doubles& at) { return reference_attention(at, h, form.causal, form.weights); };
    CHECK(relative_error(out, attended(y)) < 1e-6);
    CHECK(relative_error(gradient, numeric_gradient(y, [&](const Doubles& at) { return dot(attended(at), dy); })) <
          1e-5);
  }
}

TEST_CASE("self-attention: rows in tiles have the bits of all rows at once, in memory that grows with the tokens") {
  for (const auto& [tokens, causal, function] :
       grid(Sizes{1, 63, 64, 65, 200}, kBoth, std::vector{kSparsemax, kSoftmax})) {
    const size_t h = 24;
    const std::vector<float> y = floats(random_doubles(tokens * h, 1.5, 6));
    std::vector<float> weights(tokens * tokens), all(y.size()), tiled(y.size());
    SelfAttentionScratch scratch;
    self_attention_forward(y.data(), tokens, h, {causal, function}, weights.data(), all.data(), &scratch);
    CHECK(scratch.scores.empty());
    self_attention(y.data(), tokens, h, {causal, function}, tiled.data(), &scratch);
    CHECK(same_bits(all, tiled));
    CHECK(scratch.scores.size() <= 64 * tokens);
  }
}

TEST_CASE("predictor network: gradients accumulate, and reused activations do not affect them") {
  Case c(kTiny[0], {4, 2}, 0.7, NetworkUse::kTraining);
  Case longer(kTiny[0], {9, 3, 5}, 0.7);
  const std::vector<float> dlogits = floats(random_doubles(c.logit_count, 1, 14));
  const auto gradient = [&](int times) {
    std::vector<float> sums(c.layout.count(), 0.0f);
    for (int i = 0; i < times; ++i) {
      c.logits();
      c.network.backward(c.batch(), &c.activations, dlogits.data(), sums.data());
    }
    return sums;
  };
  const std::vector<float> once = gradient(1);
  std::vector<float> logits(longer.logit_count);
  c.network.forward(longer.batch(), &c.activations, logits.data());
  CHECK(same_bits(once, gradient(1)));
  std::vector<float> twice = gradient(2);
  for (float& v : twice) v /= 2;
  CHECK(relative_error(twice, once) < 1e-6);
}

TEST_CASE("predictor network: a sequence's bits do not depend on its batch") {
  for (const bool blocks : kBoth) {
    Case all({.d_in = 12, .hidden = 48, .layers = 2, .experts = 9, .bidirectional = !blocks, .blocks = blocks ? 2u : 0},
             {5, 33, 1, 12}, 0.3);
    const std::vector<float> together = all.logits();
    size_t row = 0;
    for (const uint32_t length : all.lengths) {
      const std::vector<uint32_t> lengths = {length};
      std::vector<float> alone(2 * length * 9);
      all.network.forward({&all.x_f[row * 12], lengths}, &all.activations, alone.data());
      for (size_t l = 0; l < 2; ++l) {
        CHECK(same_bits(&alone[l * length * 9], &together[(l * all.rows + row) * 9], length * 9));
      }
      row += length;
    }
  }
}

TEST_CASE("predictor stepper: steps give the bits of the whole causal pass") {
  for (int form = 0; form < 5; ++form) {
    const PredictorConfig config = {.d_in = 12,
                                    .hidden = 48,
                                    .layers = 2,
                                    .experts = 9,
                                    .causal = true,
                                    .blocks = form == 2 ? 2u : 0,
                                    .summary = form != 0 && form != 3,
                                    .lstm_layers = form == 3 ? 1u : 2,
                                    .attention_weights = form == 4 ? kSoftmax : kSparsemax};
    Case c(config, {70, 33, 36}, 0.3);
    const std::vector<float> whole = c.logits();
    PredictorStepper stepper(c.network);
    std::vector<PredictorState> states(3);
    for (size_t s = 0; s < 3; ++s) {
      std::vector<float> product(config.hidden);
      if (config.summary) c.network.summary_products(&c.summaries_f[s * config.d_in], 1, product.data());
      stepper.begin(&states[s], config.summary ? product.data() : nullptr);
    }
    // Sequence 1 begins late, sequence 2 ends early: the batch of a step changes.
    const size_t first[] = {0, 70, 103};
    for (size_t step = 0; step < 70; ++step) {
      std::vector<PredictorState*> active;
      Sizes rows;
      std::vector<float> x;
      for (size_t s = 0; s < 3; ++s) {
        if ((s == 1 && step < 20) || states[s].length == c.lengths[s]) continue;
        active.push_back(&states[s]);
        rows.push_back(first[s] + states[s].length);
        const float* from = &c.x_f[rows.back() * config.d_in];
        x.insert(x.end(), from, from + config.d_in);
      }
      std::vector<float> products(active.size() * config.hidden), logits(active.size() * config.layers * 9);
      c.network.compress(x.data(), active.size(), products.data());
      stepper.step(active, products.data(), logits.data());
      for (const auto& [l, i] : grid(Sizes{0, 1}, first_numbers(rows.size()))) {
        REQUIRE(same_bits(&logits[(i * config.layers + l) * 9], &whole[(l * c.rows + rows[i]) * 9], 9));
      }
    }
    for (size_t s = 0; s < 3; ++s) CHECK(states[s].length == c.lengths[s]);
  }
}

TEST_CASE("predictor stepper: a state that begins again keeps nothing of its last sequence") {
  Case c({.d_in = 4, .hidden = 8, .layers = 1, .experts = 3, .causal = true}, {5}, 0.5);
  PredictorStepper stepper(c.network);
  PredictorState state;
  PredictorState* states[] = {&state};
  for (int run = 0; run < 2; ++run) {
    std::vector<float> steps(15), products(8);
    stepper.begin(&state, nullptr);
    for (size_t t = 0; t < 5; ++t) {
      c.network.compress(&c.x_f[t * 4], 1, products.data());
      stepper.step(states, products.data(), &steps[t * 3]);
    }
    CHECK(same_bits(steps, c.logits()));
  }
}

}  // namespace
