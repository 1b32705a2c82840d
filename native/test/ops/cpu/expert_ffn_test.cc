#include "ops/cpu/expert_ffn.h"

#include "ops/cpu/cpu_workspace.h"
#include "support/allocation_count.h"
#include "support/kernel_sets.h"
#include "support/ops_fixture.h"
#include "support/weight_formats.h"
#include "weights/expert_layout.h"

namespace {

constexpr ActivationFormat kFormatsOfRows[] = {ActivationFormat::kF32, ActivationFormat::kBf16,
                                               ActivationFormat::kInt8};
constexpr WeightFormat kLayerFormats[] = {kF32Format,       kBf16Format, kInt8Format, int4_format(32),
                                          int4_format(128), kQ8_0Format, kQ4_0Format};

/// A layer of `experts` experts, and which of `tokens · k` choices each has.
struct Layer {
  size_t d, ff, k, tokens;
  Activation activation;
  std::vector<float> x, y, inputs, hidden;
  std::vector<std::byte> panels, rounded;
  std::vector<uint32_t> order;
  std::vector<ExpertRows> group;

  Layer(size_t d_, size_t ff_, size_t experts, size_t tokens_, size_t k_, WeightFormat up, WeightFormat down,
        bool gated = false)
      : d(d_),
        ff(ff_),
        k(k_),
        tokens(tokens_),
        activation(gated ? Activation::kSwiglu : Activation::kRelu),
        x(random_floats(tokens * d, 1)),
        y(tokens * k * d, -1.0f) {
    const size_t up_bytes = panel_matrix_bytes(ff, d, up), bytes = 2 * up_bytes + panel_matrix_bytes(d, ff, down);
    panels.resize(experts * bytes);
    std::mt19937 random(2);
    std::vector<std::vector<uint32_t>> of(experts);
    for (uint32_t choice = 0; choice < tokens * k; ++choice) of[random() % experts].push_back(choice);
    order.reserve(tokens * k);
    for (unsigned e = 0; e < experts; ++e) {
      std::byte* const block = panels.data() + e * bytes;
      std::byte* const parts[] = {block, block + up_bytes, block + 2 * up_bytes};
      std::ranges::copy(random_panels(up, ff, d, 10 + e), parts[0]);
      std::ranges::copy(random_panels(up, ff, d, 1000 + e), parts[1]);
      std::ranges::copy(random_panels(down, d, ff, 2000 + e), parts[2]);
      if (of[e].empty()) continue;
      group.push_back({gated ? PanelMatrix{parts[1], up, d, ff} : PanelMatrix{},
                       {parts[0], up, d, ff},
                       {parts[2], down, ff, d},
                       order.data() + order.size(),
                       of[e].size(),
                       y.data() + order.size() * d});
      order.insert(order.end(), of[e].begin(), of[e].end());
    }
  }

  /// Memory for `rows` rows at a time.
  ExpertScratch scratch(size_t rows, ActivationFormat format) {
    inputs.resize(rows * d);
    hidden.resize(rows * (ff + 16));
    rounded.resize(rounded_bytes(rows, std::max(d, ff), format));
    return {rows, inputs.data(), hidden.data(), ff + 16, {format, rounded}};
  }
};

void check_rows_as_if_alone(Layer layer, size_t rows, ActivationFormat format) {
  static ThreadPool one(1), three(3);
  const ExpertScratch scratch = layer.scratch(rows, format);
  expert_ffn(three, layer.group, layer.x.data(), layer.k, layer.activation, scratch);
  std::vector<float> hidden(layer.ff), y(layer.d);
  for (const ExpertRows& expert : layer.group) {
    for (size_t i = 0; i < expert.rows; ++i) {
      const float* x = &layer.x[expert.order[i] / layer.k * layer.d];
      if (expert.gate.data != nullptr) {
        linear(one, x, layer.d, 1, expert.gate, hidden.data(), layer.ff, Epilogue::kStore, scratch.rounded);
      }
      linear(one, x, layer.d, 1, expert.up, hidden.data(), layer.ff, activation_epilogue(layer.activation),
             scratch.rounded);
      linear(one, hidden.data(), layer.ff, 1, expert.down, y.data(), layer.d, Epilogue::kStore, scratch.rounded);
      REQUIRE(same_bits(y.data(), expert.y + i * layer.d, layer.d));
    }
  }
}

TEST_CASE("expert ffn: each row as if it were alone, whatever the group, the scratch and the threads") {
  // 70 experts are more than one batch takes.
  for (const auto& [format, activations, k, rows] : grid(kLayerFormats, kFormatsOfRows, Sizes{1, 2}, Sizes{5, 64})) {
    for (const auto& [experts, tokens] : std::vector<std::pair<size_t, size_t>>{{1, 1}, {3, 29}, {70, 120}}) {
      CASE(format, activations, k, rows, experts);
      check_rows_as_if_alone({48, 100, experts, tokens, k, format, format}, rows, activations);
      if (k == 2) check_rows_as_if_alone({48, 100, experts, tokens, k, format, format, true}, rows, activations);
    }
  }
  // Types that GGUF files mix.
  for (const ActivationFormat activations : kFormatsOfRows) {
    check_rows_as_if_alone({256, 512, 1, 70, 1, kQ4_KFormat, kQ6_KFormat, true}, 64, activations);
    check_rows_as_if_alone({256, 512, 1, 70, 1, kQ6_KFormat, kQ4_KFormat, true}, 64, activations);
    check_rows_as_if_alone({256, 512, 1, 70, 1, kQ3_KFormat, kIq4XsFormat, true}, 64, activations);
  }
}

TEST_CASE("expert ffn: a weight that is not finite shows in every row, also where ReLU or silu would make 0 of it") {
  ThreadPool pool(1);
  for (const auto& [format, activations, bad, broken, gated] :
       grid(kLayerFormats, kFormatsOfRows, std::vector{kInfinity, -kInfinity, NAN},
            std::vector{Projection::kGate, Projection::kUp, Projection::kDown}, kBoth)) {
    if (broken == Projection::kGate && !gated) continue;
    CASE(format, activation_format_name(activations), bad, projection_name(broken), gated);
    Layer layer(48, 100, 1, 9, 1, format, format, gated);
    const ExpertRows& expert = layer.group[0];
    const PanelMatrix& matrix = broken == Projection::kGate ? expert.gate
                                : broken == Projection::kUp ? expert.up
                                                            : expert.down;
    std::vector<float> weights = random_floats(layer.ff * layer.d, 10);
    weights[5 * matrix.k + 7] = bad;
    pack_panels(weights.data(), matrix.n, matrix.k, format, const_cast<std::byte*>(matrix.data));
    expert_ffn(pool, layer.group, layer.x.data(), 1, layer.activation, layer.scratch(64, activations));
    for (size_t row = 0; row < layer.tokens; ++row) {
      const float* y = &layer.y[row * layer.d];
      CHECK(!std::all_of(y, y + layer.d, [](float value) { return std::isfinite(value); }));
    }
  }
}

TEST_CASE("expert ffn: allocates nothing") {
  ThreadPool pool(2);
  for (const auto& [format, activations] : grid(kLayerFormats, kFormatsOfRows)) {
    Layer layer(256, 512, 8, 40, 1, format, format);
    const ExpertScratch scratch = layer.scratch(64, activations);
    const size_t before = allocations();
    expert_ffn(pool, layer.group, layer.x.data(), 1, Activation::kRelu, scratch);
    linear(pool, layer.x.data(), layer.d, layer.tokens, layer.group[0].up, scratch.hidden, scratch.hidden_stride,
           Epilogue::kStore, scratch.rounded);
    CHECK(allocations() == before);
  }
}

TEST_CASE("cpu workspace: has room for the widest rows, rounded for weights of any format") {
  const auto backend = make_backend(DeviceKind::kCpu);
  DeviceMemory memory(*backend, uint64_t{1} << 30);
  for (const auto& [activations, tokens, format] : grid(kFormatsOfRows, Sizes{1, 37, 300}, all_formats())) {
    CASE(format, tokens);
    BatchLimits limits = limits_of(tokens);
    limits.activations = activations;
    const CpuWorkspace workspace(memory, decoder_spec(256, 4, 4, 64), limits);
    if (!takes_rounded(format, workspace.rounded)) continue;
    // The feed-forward network is the widest: twice the model's width.
    CHECK(workspace.rounded.memory.size() >= rounded_bytes(std::min(tokens, kRoundedRows), 512, format));
  }
  std::vector<std::byte> memory_of_rows(rounded_bytes(4, 256, kQ6_KFormat));
  CHECK_NOTHROW(rounded_rows(memory_of_rows, 4, 256, kQ6_KFormat));
  memory_of_rows.pop_back();
  CHECK_THROWS_AS(rounded_rows(memory_of_rows, 4, 256, kQ6_KFormat), Error);
}

}  // namespace
