// Operations on rows, on every device, against float64. Attention and experts have files of their own.
#include "ops/ops.h"

#include "support/ops_fixture.h"
#include "support/weight_formats.h"

namespace {

const std::vector<WeightFormat> kThreeFormats{kF32Format, kBf16Format, kInt8Format};

TEST_CASE("ops: a device takes the planned bytes") {
  for (const auto& [kind, moe] : grid(devices(), kBoth)) {
    CASE(device_name(kind), moe);
    ModelSpec spec = decoder_spec(kWidth, 4, 2, 24);
    if (moe) spec.stacks[0].layers[1].feed_forward = MoeSpec{8, {40, Activation::kSwiglu}, {.top_k = 3}};
    OpsFixture fixture(kind, spec, limits_of(20));
    CHECK(fixture.taken() == fixture.backend().taken(fixture.planned()));
  }
}

TEST_CASE("ops: norms divide rows by their root mean square, with a bias less their mean, in place and alone too") {
  for (const auto& [kind, biased] : grid(devices(), kBoth)) {
    OpsFixture fixture(kind, decoder_spec(kWidth, 3, 3, 24), limits_of(200));
    const Activations& a = fixture.at();
    // Widths of whole vectors and others.
    for (const auto& [width, rows] : grid(Sizes{1, 3, 4, 24, 33, kWidth, 75, 768, 1028, 4100}, Sizes{1, 3, 18})) {
      if (rows * width > 200 * kWidth) continue;
      CASE(device_name(kind), biased, rows, width);
      auto x = random_floats(rows * width, 1);
      for (float& value : x) value += biased ? 3 : 0;
      const auto weight = random_floats(width, 2), bias = random_floats(width, 3);
      const NormWeights on_device{fixture.upload(weight), biased ? fixture.upload(bias) : nullptr};
      const Doubles expected = by_row(x, width, [&](const Doubles& row) {
        return biased ? layer_norm64(row, weight.data(), bias.data(), 1e-5) : rms_norm64(row, weight.data(), 1e-5);
      });
      fixture.write(a.hidden, x);
      fixture.ops().norm(a.hidden, on_device, 1e-5f, rows, width, a.normed);
      const auto apart = fixture.read(a.normed, rows * width);
      check_near(apart, expected, biased ? 3e-6 : 1e-6);
      fixture.ops().norm(a.hidden, on_device, 1e-5f, rows, width, a.hidden);
      CHECK(same_bits(fixture.read(a.hidden, rows * width), apart));
      fixture.write(a.hidden, part_of(x, (rows - 1) * width, width));
      fixture.ops().norm(a.hidden, on_device, 1e-5f, 1, width, a.normed);
      CHECK(same_bits(fixture.read(a.normed, width), part_of(apart, (rows - 1) * width, width)));
      x[x.size() / 2] = NAN;
      fixture.write(a.hidden, x);
      fixture.ops().norm(a.hidden, on_device, 1e-5f, rows, width, a.normed);
      const auto broken = fixture.read(a.normed, rows * width);
      for (size_t i = 0; i < x.size(); ++i) {
        const bool beside = i / width == x.size() / 2 / width;
        REQUIRE((beside ? std::isnan(broken[i]) : broken[i] == apart[i]));
      }
    }
  }
}

TEST_CASE("ops: a norm without a weight has that of ones") {
  for (const auto& [kind, width] : grid(devices(), Sizes{1, 12, 33, kWidth})) {
    CASE(device_name(kind), width);
    OpsFixture fixture(kind, decoder_spec(kWidth, 3, 3, 24), limits_of(20));
    const Activations& a = fixture.at();
    fixture.write(a.hidden, random_floats(5 * width, 1));
    fixture.ops().norm(a.hidden, {fixture.upload(std::vector<float>(width, 1.0f))}, 1e-5f, 5, width, a.normed);
    fixture.ops().norm(a.hidden, {}, 1e-5f, 5, width, a.queries);
    CHECK(same_bits(fixture.read(a.queries, 5 * width), fixture.read(a.normed, 5 * width)));
  }
}

TEST_CASE("ops: rows are cleared, added, and scaled by a number of the device") {
  constexpr size_t kCount = 19 * kWidth + 5;
  for (const DeviceKind kind : devices()) {
    CASE(device_name(kind));
    OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 24), limits_of(20));
    const Activations& a = fixture.at();
    auto x = random_floats(kCount, 1);
    const auto y = random_floats(kCount, 2);
    fixture.write(a.hidden, x);
    fixture.write(a.normed, y);
    fixture.ops().add(a.hidden, kCount, a.normed);
    fixture.ops().scale(a.hidden, kCount, fixture.upload(std::vector{-1.5f}));
    for (size_t i = 0; i < kCount; ++i) x[i] += y[i];
    CHECK(fixture.read(a.normed, kCount) == x);
    for (size_t i = 0; i < kCount; ++i) x[i] = (x[i] - y[i]) * -1.5f;
    check_near(fixture.read(a.hidden, kCount), doubles(x.data(), kCount), 1e-6);
    fixture.ops().clear(a.hidden, kCount - 1);
    const auto cleared = fixture.read(a.hidden, kCount);
    CHECK(std::count(cleared.begin(), cleared.end(), 0.0f) == kCount - 1);
  }
}

TEST_CASE("ops: positions add a sine to the first half of a row and a cosine to the second") {
  // As many frequencies as half the columns, and fewer.
  for (const auto& [kind, half] : grid(devices(), Sizes{kWidth / 2, kWidth / 2 - 1})) {
    CASE(device_name(kind), half);
    Sinusoids sinusoids;
    for (size_t j = 0; j < half; ++j) {
      sinusoids.frequencies.push_back(std::pow(10000.0f, -static_cast<float>(j) / static_cast<float>(half - 1)));
    }
    ModelSpec spec = decoder_spec(kWidth, 3, 3, 24);
    spec.stacks[0].positions = sinusoids;
    OpsFixture fixture(kind, spec, limits_of(20));
    const Pass pass(fixture, 5);
    const std::vector<uint32_t> positions{2, 0, 3, 4000, 2};
    const auto x = random_floats(5 * kWidth, 1);
    fixture.write(fixture.at().hidden, x);
    fixture.ops().add_positions(sinusoids, positions);
    Doubles expected(x.begin(), x.end());
    for (size_t t = 0; t < positions.size(); ++t) {
      for (size_t j = 0; j < half && positions[t] != 0; ++j) {
        const double angle = static_cast<float>(positions[t]) * sinusoids.frequencies[j];
        expected[t * kWidth + j] += std::sin(angle);
        expected[t * kWidth + half + j] += std::cos(angle);
      }
    }
    check_near(fixture.read(fixture.at().hidden, x.size()), expected, 1e-6);
  }
}

TEST_CASE("ops: a row is added to all rows of hidden") {
  for (const DeviceKind kind : devices()) {
    CASE(device_name(kind));
    OpsFixture fixture(kind, decoder_spec(kWidth, 3, 3, 24), limits_of(20));
    const auto x = random_floats(7 * kWidth, 1), row = random_floats(kWidth, 2);
    fixture.write(fixture.at().hidden, x);
    fixture.ops().add_row(fixture.upload(row), 5);
    const auto found = fixture.read(fixture.at().hidden, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      REQUIRE(found[i] == (i < 5 * kWidth ? x[i] + row[i % kWidth] : x[i]));
    }
  }
}

TEST_CASE("ops: each product of the same rows, and each row, has the bits it has alone") {
  constexpr size_t kRows = 19;
  for (const auto& [kind, format] : grid(devices(), kThreeFormats)) {
    CASE(device_name(kind), format);
    OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 40), limits_of(kRows));
    const TestMatrix w[] = {fixture.matrix(160, kWidth, format, 1), fixture.matrix(80, kWidth, format, 2),
                            fixture.matrix(80, kWidth, format, 3)};
    const TestMatrix back = fixture.matrix(kWidth, 160, format, 5);
    const Activations& a = fixture.at();
    const auto x = random_floats(kRows * kWidth, 4), hidden = random_floats(kRows * kWidth, 6);
    fixture.write(a.normed, x);
    const Product products[] = {{w[0].panels, a.queries}, {w[1].panels, a.keys}, {w[2].panels, a.values}};
    fixture.ops().linear(a.normed, kRows, products, Epilogue::kStore);
    for (size_t i = 0; i < 3; ++i) {
      check_near(fixture.read(products[i].y, kRows * w[i].panels.n),
                 by_row(x, kWidth, [&](const Doubles& row) { return w[i].times(row); }),
                 product_tolerance(kind, format, 2e-6));
    }
    fixture.write(a.hidden, hidden);
    const Product add{back.panels, a.hidden};
    fixture.ops().linear(a.queries, kRows, {&add, 1}, Epilogue::kAdd);
    Doubles expected =
        by_row(fixture.read(a.queries, kRows * 160), 160, [&](const Doubles& row) { return back.times(row); });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += hidden[i];
    check_near(fixture.read(a.hidden, kRows * kWidth), expected, product_tolerance(kind, format, 4e-6));

    const auto keys = fixture.read(a.keys, kRows * 80);
    for (size_t r = 0; r < kRows; r += 6) {
      const Product alone{w[1].panels, a.values};
      fixture.ops().linear(a.normed + r * kWidth, 1, {&alone, 1}, Epilogue::kStore);
      CHECK(same_bits(fixture.read(a.values, 80), part_of(keys, r * 80, 80)));
    }
  }
}

TEST_CASE("ops: clip clamps, and what is not finite becomes NaN") {
  for (const DeviceKind kind : devices()) {
    CASE(device_name(kind));
    OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 24), limits_of(20));
    auto x = random_floats(19 * kWidth + 5, 1);
    x[7] = kInfinity, x[8] = -kInfinity, x[9] = NAN;
    fixture.write(fixture.at().hidden, x);
    fixture.ops().clip(fixture.at().hidden, x.size(), 0.75f);
    const auto found = fixture.read(fixture.at().hidden, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      REQUIRE((std::isfinite(x[i]) ? found[i] == std::clamp(x[i], -0.75f, 0.75f) : std::isnan(found[i])));
    }
  }
}

TEST_CASE("ops: rotate turns the halves of each head by its token's position, and leaves the rest") {
  // All of a head, and a part of it.
  for (const auto& [kind, heads, dim, part] : grid(devices(), Sizes{1, 3, 40}, Sizes{2, 10, 24, 128}, Sizes{1, 2})) {
    const size_t half = (dim / 2 + part - 1) / part, width = heads * dim;
    CASE(device_name(kind), heads, dim, half);
    ModelSpec spec = decoder_spec(kWidth, heads, 1, dim);
    Rope rope;
    for (size_t j = 0; j < half; ++j) {
      rope.inverse_frequencies.push_back(std::pow(10000.0f, -static_cast<float>(j) / static_cast<float>(half)));
    }
    rope.magnitude = 1.25f;
    spec.stacks[0].positions = rope;
    BatchLimits limits = limits_of(20);
    limits.kv_tokens = 3200;
    OpsFixture fixture(kind, spec, limits);
    KvPages pages[3];
    const SequenceSpan spans[] = {{0, 7, 0, &pages[0]}, {7, 1, 3000, &pages[1]}, {8, 12, 41, &pages[2]}};
    for (size_t i = 0; i < 3; ++i) fixture.cache().grow(pages[i], 0, spans[i].past + spans[i].count);
    const auto x = random_floats(20 * width, 1);
    fixture.ops().start(0, spans, 20);
    fixture.write(fixture.at().queries, x);
    fixture.ops().rotate(fixture.at().queries, heads, dim, 0);
    Doubles expected(x.begin(), x.end());
    for (const SequenceSpan& span : spans) {
      for (const auto& [i, head, j] : grid(first_numbers(span.count), first_numbers(heads), first_numbers(half))) {
        const size_t first = (span.begin + i) * width + head * dim + j, second = first + half;
        const double angle = static_cast<float>(span.past + i) * rope.inverse_frequencies[j];
        const double c = 1.25 * std::cos(angle), s = 1.25 * std::sin(angle);
        expected[first] = x[first] * c - x[second] * s;
        expected[second] = x[second] * c + x[first] * s;
      }
    }
    check_near(fixture.read(fixture.at().queries, x.size()), expected, 1e-6);
  }
}

TEST_CASE("ops: a stack's other rotary positions turn as they do alone") {
  for (const DeviceKind kind : devices()) {
    CASE(device_name(kind));
    const Rope few{{1.0f, 0.5f}}, many{{0.75f, 0.25f, 0.125f, 0.0f, 0.0f}};
    const auto x = random_floats(20 * 30, 1);
    const auto turned = [&](const Rope& first, const std::vector<Rope>& others, size_t rope) {
      ModelSpec spec = decoder_spec(kWidth, 3, 1, 10);
      spec.stacks[0].positions = first;
      spec.stacks[0].more_ropes = others;
      BatchLimits limits = limits_of(20);
      limits.kv_tokens = 320;
      OpsFixture fixture(kind, spec, limits);
      KvPages pages;
      fixture.cache().grow(pages, 0, 33);
      const SequenceSpan span{0, 20, 13, &pages};
      fixture.ops().start(0, {&span, 1}, 20);
      fixture.write(fixture.at().queries, x);
      fixture.ops().rotate(fixture.at().queries, 3, 10, rope);
      return fixture.read(fixture.at().queries, x.size());
    };
    CHECK(same_bits(turned(few, {many}, 0), turned(few, {}, 0)));
    const auto other = turned(few, {few, many}, 2);
    CHECK(same_bits(other, turned(many, {}, 0)));
    // A frequency of 0 turns nothing: columns 3 and 4 of both halves.
    for (size_t i = 0; i < x.size(); ++i) CHECK((i % 5 < 3 || other[i] == x[i]));
  }
}

TEST_CASE("ops: embeddings have the bits of their rows, scaled") {
  for (const auto& [kind, format, any] : grid(devices(), all_formats(), Sizes{1, 2, 5, 7, 12, 30, 64, 100, 131, 768})) {
    // Only experts have this type.
    if (format == kBf16cFormat) continue;
    const size_t width = inputs_for(format, any);
    CASE(device_name(kind), format, width);
    OpsFixture fixture(kind, decoder_spec(width, 1, 1, 8), limits_of(20));
    const TestMatrix embedding = fixture.matrix(70, width, format, 1);
    const std::vector<int32_t> tokens = {0, 69, 31, 32, 5, 5, 64, 63};
    const Pass pass(fixture, tokens.size());
    for (const float scale : {1.0f, 8.5f}) {
      fixture.ops().start(0, {&pass.span, 1}, tokens.size());
      fixture.ops().embed(embedding.panels, tokens, scale);
      const auto hidden = fixture.read(fixture.at().hidden, tokens.size() * width);
      for (size_t i = 0; i < hidden.size(); ++i) {
        REQUIRE(hidden[i] == embedding.rows[static_cast<size_t>(tokens[i / width]) * width + i % width] * scale);
      }
    }
  }
}

TEST_CASE("ops: rows of logits and of states") {
  for (const auto& [kind, format] : grid(devices(), kThreeFormats)) {
    CASE(device_name(kind), format);
    // Fewer tokens than rows of logits.
    OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 24), limits_of(20));
    const TestMatrix head = fixture.matrix(100, kWidth, format, 1);
    const std::vector<int32_t> rows = {0, 3, 3, 19};
    const Pass pass(fixture, 5);
    const auto states = random_floats(20 * kWidth, 2);
    fixture.write(fixture.at().normed, states);
    std::vector<float> copy(20 * kWidth), logits(rows.size() * 100), alone(100);
    fixture.ops().states(20, copy.data());
    CHECK(copy == states);
    fixture.ops().logits(head.panels, rows, {.scale = 0.5f}, logits.data());
    Doubles expected;
    for (const int32_t row : rows) {
      for (const double y : head.times(doubles(&states[static_cast<size_t>(row) * kWidth], kWidth))) {
        expected.push_back(y / 2);
      }
    }
    check_near(logits, expected, product_tolerance(kind, format, 2e-6));
    fixture.ops().logits(head.panels, std::span(rows).subspan(3), {.scale = 0.5f}, alone.data());
    CHECK(same_bits(alone, part_of(logits, 300, 100)));
    fixture.ops().logits(head.panels, rows, {.scale = 0.5f, .cap = 0.75f}, logits.data());
    for (double& y : expected) y = 0.75 * std::tanh(y / 0.75);
    check_near(logits, expected, product_tolerance(kind, format, 2e-6));
  }
}

}  // namespace
