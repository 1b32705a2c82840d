// Experts, on every device, against float64; and a whole MoE layer with any number of threads.
#include "support/allocation_count.h"
#include "support/ops_fixture.h"

namespace {

/// A layer of experts in blocks, and choices of experts for its tokens.
struct Layer {
  ExpertLayout layout;
  std::vector<Network> networks;
  std::vector<const std::byte*> blocks;
  Dispatch dispatch;

  Layer(OpsFixture& fixture, Activation activation, WeightFormat format, size_t tokens, size_t k)
      : layout(make_expert_layout({kWidth, kHidden, activation, 1, kExperts, activation == Activation::kClampedSwiglu},
                                  format)),
        networks(kExperts) {
    unsigned seed = 10;
    for (size_t e = 0; e < kExperts; ++e) {
      Network& net = networks[e];
      std::vector<std::byte> block(layout.slot_bytes);
      for (const ExpertMatrix& matrix : layout.layers[0].matrices) {
        const bool gate = matrix.projection == Projection::kGate, up = matrix.projection == Projection::kUp;
        (gate ? net.gate
         : up ? net.up
              : net.down) = OpsFixture::packed(matrix.n, matrix.k, format, seed++, block.data() + matrix.offset);
        if (!matrix.bias) continue;
        const auto bias = random_floats(matrix.n, seed++);
        std::memcpy(block.data() + *matrix.bias, bias.data(), matrix.n * sizeof(float));
        (gate ? net.gate_bias : up ? net.up_bias : net.down_bias) = bias;
      }
      net.activation = activation;
      blocks.push_back(fixture.upload(block));
      net.gate.panels = layout.layers[0].matrix(blocks[e], Projection::kGate);
      net.up.panels = layout.layers[0].matrix(blocks[e], Projection::kUp);
      net.down.panels = layout.layers[0].matrix(blocks[e], Projection::kDown);
    }
    dispatch.k = k;
    dispatch.alpha = random_floats(tokens * k, 3);
    std::mt19937 random(4);
    for (size_t choice = 0; choice < tokens * k; ++choice) {
      // Different experts for each token. Some choices name no expert, and the last expert has no token.
      const size_t expert = (random() % 3 + choice % k * 3) % (kExperts - 1);
      dispatch.expert.push_back(choice % 11 == 5 ? kNoExpert : static_cast<uint16_t>(expert));
    }
  }

  /// In groups of `group`, the last expert first where `reversed`.
  void run(Ops& ops, size_t tokens, size_t group, bool reversed) const {
    std::vector<ExpertBlock> all;
    for (uint16_t e = 0; e < kExperts; ++e) {
      if (dispatch.begin[e + 1] > dispatch.begin[e]) all.push_back({e, blocks[e]});
    }
    if (reversed) std::reverse(all.begin(), all.end());
    ops.take_choices(dispatch, tokens);
    for (size_t begin = 0; begin < all.size(); begin += group) {
      ops.experts(layout, 0, std::span(all).subspan(begin, std::min(group, all.size() - begin)), dispatch);
    }
    ops.combine(dispatch, tokens, ops.activations().hidden);
  }
};

TEST_CASE("ops: experts add up by their alphas, with the same bits in every order of residency") {
  constexpr size_t kTokens = 40;
  for (const auto& [kind, activation, format, k] :
       grid(devices(), kActivations, std::vector{kF32Format, kBf16Format, int4_format(32)}, Sizes{1, 2})) {
    CASE(device_name(kind), gated(activation), format, k);
    OpsFixture fixture(kind, moe_spec(activation, {.top_k = k}), limits_of(kTokens));
    Layer layer(fixture, activation, format, kTokens, k);
    const Pass pass(fixture, kTokens);
    sort_choices(kExperts, 9, {&pass.span, 1}, layer.dispatch);
    const auto x = random_floats(kTokens * kWidth, 1), before = random_floats(kTokens * kWidth, 2);
    fixture.write(fixture.at().normed, x);
    std::vector<float> first;
    for (const auto& [group, reversed] : {std::pair<size_t, bool>{kExperts, false}, {1, false}, {3, true}}) {
      fixture.write(fixture.at().hidden, before);
      fixture.ops().start(0, {&pass.span, 1}, kTokens);
      layer.run(fixture.ops(), kTokens, group, reversed);
      const auto found = fixture.read(fixture.at().hidden, before.size());
      if (first.empty()) first = found;
      CHECK(same_bits(found, first));
    }
    std::vector<double> expected(before.begin(), before.end());
    size_t dropped = 0;
    for (size_t choice = 0; choice < kTokens * k; ++choice) {
      const size_t t = choice / k;
      dropped += layer.dispatch.expert[choice] == kNoExpert;
      if (layer.dispatch.expert[choice] == kNoExpert) continue;
      const auto y = layer.networks[layer.dispatch.expert[choice]].run(doubles(&x[t * kWidth], kWidth));
      for (size_t i = 0; i < kWidth; ++i) expected[t * kWidth + i] += layer.dispatch.alpha[choice] * y[i];
    }
    CHECK(dropped > kTokens * k / 11 + 1);
    // Its outputs are up to 56 times as large.
    const double tolerance = activation == Activation::kClampedSwiglu ? 2e-5 : 4e-6;
    check_near(first, expected, product_tolerance(kind, format, tolerance));
  }
}

TEST_CASE("ops: choosing ahead routes hidden by another layer's norm and router, and changes nothing else") {
  constexpr size_t kTokens = 5;
  for (const auto& [kind, scores] : grid(devices(), std::vector{RouterScores::kSoftmax, RouterScores::kSigmoid})) {
    const RouterSpec routing{.top_k = 2, .scores = scores};
    CASE(device_name(kind), scores == RouterScores::kSigmoid);
    const ModelSpec spec = moe_spec(Activation::kSwiglu, routing);
    OpsFixture fixture(kind, spec, limits_of(kTokens));
    const TestMatrix router = fixture.matrix(kExperts, kWidth, kF32Format, 6);
    FeedForwardWeights later{};
    later.router = router.panels;
    const Pass pass(fixture, kTokens);
    const auto hidden = random_floats(kTokens * kWidth, 1), normed = random_floats(kTokens * kWidth, 2);
    fixture.write(fixture.at().hidden, hidden);
    fixture.write(fixture.at().normed, normed);
    Ops& ops = fixture.ops();
    // More than choose at the same time.
    std::vector<FeedForwardWeights> layers(6, later);
    for (size_t i = 0; i < layers.size(); ++i) layers[i].norm = {fixture.upload(random_floats(kWidth, 20 + i))};
    std::vector<Dispatch> ahead(layers.size());
    std::vector<LaterLayer> asked;
    for (size_t i = 0; i < layers.size(); ++i) asked.push_back({&layers[i], &routing, &ahead[i]});
    ops.choose_ahead(asked, kTokens);
    CHECK(fixture.read(fixture.at().hidden, hidden.size()) == hidden);
    CHECK(fixture.read(fixture.at().normed, normed.size()) == normed);
    for (size_t i = 0; i < layers.size(); ++i) {
      ops.norm(fixture.at().hidden, layers[i].norm, spec.norm_epsilon, kTokens, kWidth, fixture.at().normed);
      Dispatch expected;
      ops.choose(layers[i], routing, kTokens, nullptr, expected);
      CHECK(ahead[i].k == expected.k);
      CHECK(ahead[i].expert == expected.expert);
      CHECK(ahead[i].alpha == expected.alpha);
    }
  }
}

/// All ops of a MoE layer, over one sequence.
struct WholePass {
  ModelSpec spec = moe_spec(Activation::kSwiglu, {.top_k = 3, .normalized = true});
  OpsFixture fixture;
  Layer layer;
  TestMatrix square, router;
  const float* norm;
  size_t tokens;
  Dispatch dispatch;
  std::vector<ExpertBlock> group;
  std::vector<float> states;

  WholePass(size_t tokens_, size_t threads)
      : fixture(DeviceKind::kCpu, spec, limits_of(tokens_, threads)),
        layer(fixture, Activation::kSwiglu, kBf16Format, 1, 1),
        square(fixture.matrix(kWidth, kWidth, kBf16Format, 5)),
        router(fixture.matrix(kExperts, kWidth, kF32Format, 6)),
        norm(fixture.upload(random_floats(kWidth, 8))),
        tokens(tokens_),
        states(tokens * kWidth) {}

  void run(const SequenceSpan& sequence, const std::vector<float>& hidden) {
    Ops& ops = fixture.ops();
    const Activations& a = fixture.at();
    const RouterSpec& routing = spec.moe()->router;
    std::copy(hidden.begin(), hidden.end(), a.hidden);
    ops.start(0, {&sequence, 1}, tokens);
    ops.norm(a.hidden, {norm}, spec.norm_epsilon, tokens, kWidth, a.normed);
    const Product products[] = {{square.panels, a.queries}, {square.panels, a.keys}, {square.panels, a.values}};
    ops.linear(a.normed, tokens, products, Epilogue::kStore);
    ops.clip(a.queries, tokens * kWidth, 2);
    ops.rotate(a.queries, 3, 24, 0);
    ops.rotate(a.keys, 3, 24, 0);
    ops.write_kv(0);
    ops.attend({&spec.stacks[0].layers[0].self, 0, false, true, false});
    const Product output{square.panels, a.hidden};
    ops.linear(a.queries, tokens, {&output, 1}, Epilogue::kAdd);
    ops.norm(a.hidden, {norm}, spec.norm_epsilon, tokens, kWidth, a.normed);
    const Network& dense = layer.networks[0];
    ops.feed_forward({dense.gate.panels, dense.up.panels, dense.down.panels, {}}, Activation::kSwiglu, tokens,
                     a.hidden);
    FeedForwardWeights weights{};
    weights.router = router.panels;
    ops.choose(weights, routing, tokens, nullptr, dispatch);
    sort_choices(kExperts, routing.capacity, {&sequence, 1}, dispatch);
    ops.take_choices(dispatch, tokens);
    group.clear();
    for (const uint16_t e : dispatch.needed) group.push_back({e, layer.blocks[e]});
    ops.experts(layer.layout, 0, group, dispatch);
    ops.combine(dispatch, tokens, ops.activations().hidden);
    ops.norm(a.hidden, {norm}, spec.norm_epsilon, tokens, kWidth, a.normed);
    ops.states(tokens, states.data());
    ops.finish();
  }
};

TEST_CASE("cpu ops: any number of threads gives the same bits, and a pass allocates nothing once vectors have grown") {
  // Enough for every loop to be shared among the threads.
  constexpr size_t kTokens = 320;
  std::vector<float> first;
  for (const size_t threads : {1, 2, 5}) {
    CASE(threads);
    WholePass pass(kTokens, threads);
    const Pass sequence(pass.fixture, kTokens);
    const auto hidden = random_floats(kTokens * kWidth, 7);
    pass.run(sequence.span, hidden);
    const size_t before = allocations();
    pass.run(sequence.span, hidden);
    CHECK(allocations() == before);
    if (first.empty()) first = pass.states;
    CHECK(same_bits(pass.states, first));
    CHECK(std::all_of(first.begin(), first.end(), [](float value) { return std::isfinite(value); }));
  }
}

}  // namespace
