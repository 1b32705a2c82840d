#include "ops/cpu/expert_ffn.h"

#include "support/allocation_count.h"
#include "support/kernel_sets.h"
#include "support/test.h"
#include "support/weight_formats.h"
#include "weights/expert_layout.h"

namespace {

constexpr ActivationFormat kActivations[] = {ActivationFormat::kF32, ActivationFormat::kBf16, ActivationFormat::kInt8};
constexpr WeightFormat kLayerFormats[] = {
    kF32Format,  kBf16Format, {WeightType::kInt8, 0}, {WeightType::kInt4, 32}, {WeightType::kInt4, 128},
    kQ8_0Format, kQ4_0Format};

/// A layer of `experts` experts, and which of `tokens · k` choices each has.
struct Layer {
  size_t d, ff, k, tokens;
  WeightFormat format;
  bool gated;
  std::vector<float> x, y;
  std::vector<std::byte> panels;
  std::vector<uint32_t> order;
  std::vector<ExpertRows> group;

  Layer(size_t d_, size_t ff_, size_t experts, size_t tokens_, size_t k_, WeightFormat format_, bool gated_ = false)
      : d(d_),
        ff(ff_),
        k(k_),
        tokens(tokens_),
        format(format_),
        gated(gated_),
        x(random_floats(tokens * d, 1)),
        y(tokens * k * d) {
    const size_t up = panel_matrix_bytes(ff, d, format), down = panel_matrix_bytes(d, ff, format);
    panels.resize(experts * (2 * up + down));
    std::mt19937 random(2);
    std::vector<std::vector<uint32_t>> of(experts);
    for (uint32_t choice = 0; choice < tokens * k; ++choice) of[random() % experts].push_back(choice);
    order.reserve(tokens * k);
    for (size_t e = 0; e < experts; ++e) {
      std::byte* block = panels.data() + e * (2 * up + down);
      pack_panels(random_floats(ff * d, static_cast<unsigned>(10 + e)).data(), ff, d, format, block);
      pack_panels(random_floats(ff * d, static_cast<unsigned>(1000 + e)).data(), d, ff, format, block + up);
      pack_panels(random_floats(ff * d, static_cast<unsigned>(2000 + e)).data(), ff, d, format, block + up + down);
      if (of[e].empty()) continue;
      group.push_back({gated ? PanelMatrix{block + up + down, format, d, ff} : PanelMatrix{},
                       {block, format, d, ff},
                       {block + up, format, ff, d},
                       order.data() + order.size(),
                       of[e].size(),
                       y.data() + order.size() * d});
      order.insert(order.end(), of[e].begin(), of[e].end());
    }
  }
};

struct Scratch {
  std::vector<float> inputs, hidden;
  std::vector<std::byte> rounded;
  ExpertScratch view;

  Scratch(const Layer& layer, size_t rows, ActivationFormat activations)
      : inputs(rows * layer.d),
        hidden(rows * (layer.ff + 16)),
        rounded(rounded_bytes(rows, std::max(layer.d, layer.ff), layer.format)),
        view{rows, inputs.data(), hidden.data(), layer.ff + 16, {activations, rounded}} {}
};

Activation activation_of(bool gated) { return gated ? Activation::kSwiglu : Activation::kRelu; }

TEST_CASE("expert ffn: each row as if it were alone, whatever the group, the scratch and the threads") {
  ThreadPool one(1), three(3);
  for (const auto& [format, activations] : grid(kLayerFormats, kActivations)) {
    for (const auto& [k, gated] : {std::pair<size_t, bool>{1, false}, {2, false}, {2, true}}) {
      // 70 experts are more than one batch takes.
      for (const auto& [experts, tokens] : std::vector<std::pair<size_t, size_t>>{{1, 1}, {3, 29}, {70, 120}}) {
        Layer layer(48, 100, experts, tokens, k, format, gated);
        for (const size_t rows : {5, 64}) {
          Scratch scratch(layer, rows, activations);
          std::fill(layer.y.begin(), layer.y.end(), -1.0f);
          expert_ffn(three, layer.group, layer.x.data(), k, activation_of(gated), scratch.view);
          std::vector<float> hidden(layer.ff), y(layer.d);
          for (const ExpertRows& expert : layer.group) {
            for (size_t i = 0; i < expert.rows; ++i) {
              const float* x = &layer.x[expert.order[i] / k * layer.d];
              if (gated) {
                linear(one, x, layer.d, 1, expert.gate, hidden.data(), layer.ff, Epilogue::kStore,
                       scratch.view.rounded);
              }
              linear(one, x, layer.d, 1, expert.up, hidden.data(), layer.ff, activation_epilogue(activation_of(gated)),
                     scratch.view.rounded);
              linear(one, hidden.data(), layer.ff, 1, expert.down, y.data(), layer.d, Epilogue::kStore,
                     scratch.view.rounded);
              REQUIRE(std::memcmp(y.data(), expert.y + i * layer.d, layer.d * 4) == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("expert ffn: projections in the types that GGUF files mix, each row as if it were alone") {
  ThreadPool one(1), three(3);
  constexpr size_t kD = 256, kFf = 512, kTokens = 70;
  for (const ActivationFormat activations : kActivations) {
    for (const auto& [up, down] : {std::pair{kQ4_KFormat, kQ6_KFormat}, {kQ6_KFormat, kQ4_KFormat}}) {
      const std::vector<std::byte> ups = random_panels(up, kFf, kD, 1), gates = random_panels(up, kFf, kD, 2);
      const std::vector<std::byte> downs = random_panels(down, kD, kFf, 3);
      const std::vector<float> x = random_floats(kTokens * kD, 4);
      std::vector<float> y(kTokens * kD), inputs(64 * kD), hidden(64 * kFf), alone(kFf), single(kD);
      std::vector<std::byte> rounded(rounded_bytes(64, kFf, activations));
      const ExpertScratch scratch{64, inputs.data(), hidden.data(), kFf, {activations, rounded}};
      std::vector<uint32_t> order(kTokens);
      std::iota(order.rbegin(), order.rend(), 0);
      const ExpertRows expert{{gates.data(), up, kD, kFf},
                              {ups.data(), up, kD, kFf},
                              {downs.data(), down, kFf, kD},
                              order.data(),
                              kTokens,
                              y.data()};
      expert_ffn(three, {&expert, 1}, x.data(), 1, Activation::kSwiglu, scratch);
      for (size_t i = 0; i < kTokens; ++i) {
        const float* row = &x[order[i] * kD];
        linear(one, row, kD, 1, expert.gate, alone.data(), kFf, Epilogue::kStore, scratch.rounded);
        linear(one, row, kD, 1, expert.up, alone.data(), kFf, Epilogue::kSwiglu, scratch.rounded);
        linear(one, alone.data(), kFf, 1, expert.down, single.data(), kD, Epilogue::kStore, scratch.rounded);
        REQUIRE(std::memcmp(single.data(), &y[i * kD], kD * 4) == 0);
      }
    }
  }
}

TEST_CASE("expert ffn: a weight that is not finite shows in every row, also where ReLU or silu would make 0 of it") {
  ThreadPool pool(1);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [format, activations, bad, broken, gated] :
       grid(kLayerFormats, kActivations,
            std::vector<float>{kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()},
            std::vector<Projection>{Projection::kGate, Projection::kUp, Projection::kDown}, kBoth)) {
    if (broken == Projection::kGate && !gated) continue;
    CASE(format, activation_format_name(activations), bad, projection_name(broken), gated);
    Layer layer(48, 100, 1, 9, 1, format, gated);
    const ExpertRows& expert = layer.group[0];
    const PanelMatrix& matrix = broken == Projection::kGate ? expert.gate
                                : broken == Projection::kUp ? expert.up
                                                            : expert.down;
    std::vector<float> weights = random_floats(layer.ff * layer.d, 10);
    weights[5 * matrix.k + 7] = bad;
    pack_panels(weights.data(), matrix.n, matrix.k, format, const_cast<std::byte*>(matrix.data));
    Scratch scratch(layer, 64, activations);
    expert_ffn(pool, layer.group, layer.x.data(), 1, activation_of(gated), scratch.view);
    for (size_t row = 0; row < layer.tokens; ++row) {
      const float* y = &layer.y[row * layer.d];
      CHECK(!std::all_of(y, y + layer.d, [](float value) { return std::isfinite(value); }));
    }
  }
}

TEST_CASE("expert ffn: allocates nothing") {
  ThreadPool pool(2);
  for (const auto& [format, activations] : grid(kLayerFormats, kActivations)) {
    Layer layer(256, 512, 8, 40, 1, format);
    Scratch scratch(layer, 64, activations);
    const size_t before = allocations();
    expert_ffn(pool, layer.group, layer.x.data(), 1, Activation::kRelu, scratch.view);
    linear(pool, layer.x.data(), layer.d, layer.tokens, layer.group[0].up, scratch.view.hidden,
           scratch.view.hidden_stride, Epilogue::kStore, scratch.view.rounded);
    CHECK(allocations() == before);
  }
}

}  // namespace
