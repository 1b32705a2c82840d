// Operations on rows, on every device, against float64. Attention and experts have files of their own.
#include "ops/ops.h"

#include <algorithm>
#include <cmath>

#include "doctest/doctest.h"
#include "support/ops_fixture.h"
#include "support/weight_formats.h"

namespace sida {
namespace {

using namespace testing;

constexpr size_t kWidth = 72;

BatchLimits limits_of(size_t tokens) {
  BatchLimits limits;
  limits.max_batch_tokens = tokens;
  limits.kv_tokens = 64;
  limits.threads = 2;
  return limits;
}

/// One sequence of `count` tokens after `past`.
struct Sequence {
  KvPages pages;
  SequenceSpan span;

  Sequence(size_t count, size_t past) : span{0, count, past, &pages} {}
};

TEST_CASE("ops: a device takes the planned bytes") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    for (const bool moe : {false, true}) {
      ModelSpec spec = decoder_spec(kWidth, 4, 2, 24);
      if (moe) spec.stacks[0].layers[1].feed_forward = MoeSpec{8, {40, Activation::kSwiglu}, {.top_k = 3}};
      OpsFixture fixture(kind, spec, limits_of(20));
      CHECK(fixture.taken() == fixture.backend().taken(fixture.planned()));
    }
  }
}

TEST_CASE("ops: norm divides rows by their root mean square, in place too") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    const ModelSpec spec = decoder_spec(kWidth, 3, 3, 24);
    OpsFixture fixture(kind, spec, limits_of(20));
    // All of a row, and each head of it.
    for (const auto& [rows, width] : {std::pair<size_t, size_t>{20, kWidth}, {60, 24}, {1, kWidth}}) {
      const auto x = random_floats(rows * width, 1), weight = random_floats(width, 2);
      const float* on_device = fixture.upload(weight);
      std::vector<double> expected(rows * width);
      for (size_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (size_t i = 0; i < width; ++i) squares += std::pow(static_cast<double>(x[r * width + i]), 2);
        const double scale =
            1 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(spec.norm_epsilon));
        for (size_t i = 0; i < width; ++i) expected[r * width + i] = x[r * width + i] * scale * weight[i];
      }
      fixture.write(fixture.at().hidden, x);
      fixture.ops().norm(fixture.at().hidden, {on_device}, spec.norm_epsilon, rows, width, fixture.at().normed);
      const auto apart = fixture.read(fixture.at().normed, rows * width);
      check_near(apart, expected, 1e-6);
      fixture.ops().norm(fixture.at().hidden, {on_device}, spec.norm_epsilon, rows, width, fixture.at().hidden);
      CHECK(same_bits(fixture.read(fixture.at().hidden, rows * width).data(), apart.data(), apart.size()));
    }
  }
}

TEST_CASE("ops: a norm with a bias also subtracts the mean of each row") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    const ModelSpec spec = decoder_spec(kWidth, 3, 3, 24);
    OpsFixture fixture(kind, spec, limits_of(20));
    // Widths that are whole vectors, and one that is not.
    for (const auto& [rows, width] : {std::pair<size_t, size_t>{20, kWidth}, {60, 24}, {19, 75}, {1, kWidth}}) {
      auto x = random_floats(rows * width, 1);
      for (float& value : x) value += 3;
      const auto weight = random_floats(width, 2), bias = random_floats(width, 3);
      const NormWeights on_device{fixture.upload(weight), fixture.upload(bias)};
      std::vector<double> expected;
      for (size_t r = 0; r < rows; ++r) {
        const auto row = doubles(&x[r * width], width);
        double sum = 0, squares = 0;
        for (const double value : row) sum += value;
        const double mean = sum / static_cast<double>(width);
        for (const double value : row) squares += (value - mean) * (value - mean);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
        for (size_t i = 0; i < width; ++i) expected.push_back((row[i] - mean) * scale * weight[i] + bias[i]);
      }
      fixture.write(fixture.at().hidden, x);
      fixture.ops().norm(fixture.at().hidden, on_device, 1e-5f, rows, width, fixture.at().normed);
      const auto apart = fixture.read(fixture.at().normed, rows * width);
      check_near(apart, expected, 3e-6);
      fixture.ops().norm(fixture.at().hidden, on_device, 1e-5f, rows, width, fixture.at().hidden);
      CHECK(same_bits(fixture.read(fixture.at().hidden, rows * width).data(), apart.data(), apart.size()));
      fixture.write(fixture.at().hidden, {x.end() - static_cast<ptrdiff_t>(width), x.end()});
      fixture.ops().norm(fixture.at().hidden, on_device, 1e-5f, 1, width, fixture.at().normed);
      CHECK(same_bits(fixture.read(fixture.at().normed, width).data(), &apart[(rows - 1) * width], width));
    }
  }
}

TEST_CASE("ops: positions add a sine to the first half of a row and a cosine to the second") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    // As many frequencies as half the columns, and fewer.
    for (const size_t half : {kWidth / 2, kWidth / 2 - 1}) {
      Sinusoids sinusoids;
      for (size_t j = 0; j < half; ++j) {
        sinusoids.frequencies.push_back(std::pow(10000.0f, -static_cast<float>(j) / static_cast<float>(half - 1)));
      }
      ModelSpec spec = decoder_spec(kWidth, 3, 3, 24);
      spec.stacks[0].positions = sinusoids;
      OpsFixture fixture(kind, spec, limits_of(20));
      Sequence sequence(5, 0);
      fixture.cache().grow(sequence.pages, 0, 5);
      fixture.ops().start(0, {&sequence.span, 1}, 5);
      const std::vector<uint32_t> positions{2, 0, 3, 4000, 2};
      const auto x = random_floats(5 * kWidth, 1);
      fixture.write(fixture.at().hidden, x);
      fixture.ops().add_positions(sinusoids, positions);
      std::vector<double> expected(x.begin(), x.end());
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
}

TEST_CASE("ops: each product of the same rows, and each row, has the bits it has alone") {
  constexpr size_t kRows = 19;
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    for (const WeightFormat format : {kF32Format, kBf16Format, WeightFormat{WeightType::kInt8, 0}}) {
      CAPTURE(weight_type_name(format.type));
      OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 40), limits_of(kRows));
      const TestMatrix w[] = {fixture.matrix(160, kWidth, format, 1), fixture.matrix(80, kWidth, format, 2),
                              fixture.matrix(80, kWidth, format, 3)};
      const Activations& a = fixture.at();
      const auto x = random_floats(kRows * kWidth, 4);
      fixture.write(a.normed, x);
      const Product products[] = {{w[0].panels, a.queries}, {w[1].panels, a.keys}, {w[2].panels, a.values}};
      fixture.ops().linear(a.normed, kRows, products, Epilogue::kStore);
      const float* outputs[] = {a.queries, a.keys, a.values};
      const TestMatrix back = fixture.matrix(kWidth, 160, format, 5);
      const auto queries = fixture.read(a.queries, kRows * 160);
      for (size_t i = 0; i < 3; ++i) {
        const size_t n = w[i].panels.n;
        const auto found = fixture.read(outputs[i], kRows * n);
        std::vector<double> expected;
        for (size_t r = 0; r < kRows; ++r) {
          const auto row = doubles(&x[r * kWidth], kWidth);
          for (size_t c = 0; c < n; ++c) expected.push_back(product(w[i], c, row.data()));
        }
        check_near(found, expected, product_tolerance(kind, format, 2e-6));
      }
      const auto hidden = random_floats(kRows * kWidth, 6);
      fixture.write(a.hidden, hidden);
      const Product add{back.panels, a.hidden};
      fixture.ops().linear(a.queries, kRows, {&add, 1}, Epilogue::kAdd);
      std::vector<double> expected(hidden.begin(), hidden.end());
      for (size_t r = 0; r < kRows; ++r) {
        const auto row = doubles(&queries[r * 160], 160);
        for (size_t c = 0; c < kWidth; ++c) expected[r * kWidth + c] += product(back, c, row.data());
      }
      check_near(fixture.read(a.hidden, kRows * kWidth), expected, product_tolerance(kind, format, 4e-6));

      const auto keys = fixture.read(a.keys, kRows * 80);
      for (size_t r = 0; r < kRows; r += 6) {
        const Product alone{w[1].panels, a.values};
        fixture.ops().linear(a.normed + r * kWidth, 1, {&alone, 1}, Epilogue::kStore);
        CHECK(same_bits(fixture.read(a.values, 80).data(), &keys[r * 80], 80));
      }
    }
  }
}

TEST_CASE("ops: clip clamps") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 24), limits_of(20));
    const auto x = random_floats(19 * kWidth + 5, 1);
    fixture.write(fixture.at().hidden, x);
    fixture.ops().clip(fixture.at().hidden, x.size(), 0.75f);
    const auto found = fixture.read(fixture.at().hidden, x.size());
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(found[i] == std::clamp(x[i], -0.75f, 0.75f));
  }
}

TEST_CASE("ops: rotate turns the halves of each head by its token's position, and leaves the rest") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    // All of a head, and a part of it.
    for (const size_t half : {size_t{12}, size_t{5}}) {
      ModelSpec spec = decoder_spec(kWidth, 3, 1, 24);
      Rope rope;
      for (size_t j = 0; j < half; ++j) {
        rope.inverse_frequencies.push_back(std::pow(10000.0f, -static_cast<float>(j) / static_cast<float>(half)));
      }
      rope.magnitude = 1.25f;
      spec.stacks[0].positions = rope;
      BatchLimits limits = limits_of(20);
      limits.kv_tokens = 3200;
      OpsFixture fixture(kind, spec, limits);
      Sequence first(7, 0), second(1, 3000), third(12, 41);
      second.span.begin = 7;
      third.span.begin = 8;
      for (Sequence* s : {&first, &second, &third}) fixture.cache().grow(s->pages, 0, s->span.past + s->span.count);
      const SequenceSpan spans[] = {first.span, second.span, third.span};
      const auto x = random_floats(20 * kWidth, 1);
      fixture.ops().start(0, spans, 20);
      fixture.write(fixture.at().queries, x);
      fixture.ops().rotate(fixture.at().queries, 3, 24);
      const auto found = fixture.read(fixture.at().queries, x.size());
      std::vector<double> expected(x.begin(), x.end());
      for (const SequenceSpan& span : spans) {
        for (size_t i = 0; i < span.count; ++i) {
          for (size_t head = 0; head < 3; ++head) {
            const size_t at = (span.begin + i) * kWidth + head * 24;
            for (size_t j = 0; j < half; ++j) {
              const double angle = static_cast<float>(span.past + i) * rope.inverse_frequencies[j];
              const double c = 1.25 * std::cos(angle), s = 1.25 * std::sin(angle), a = x[at + j], b = x[at + half + j];
              expected[at + j] = a * c - b * s;
              expected[at + half + j] = b * c + a * s;
            }
          }
        }
      }
      check_near(found, expected, 1e-6);
    }
  }
}

TEST_CASE("ops: rows of the embedding, of logits and of states") {
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    for (const WeightFormat format : {kF32Format, kBf16Format, WeightFormat{WeightType::kInt8, 0}}) {
      CAPTURE(weight_type_name(format.type));
      // Fewer tokens than rows of logits.
      OpsFixture fixture(kind, decoder_spec(kWidth, 4, 2, 24), limits_of(20));
      const TestMatrix embedding = fixture.matrix(100, kWidth, format, 1);
      Sequence sequence(5, 0);
      fixture.cache().grow(sequence.pages, 0, 5);
      fixture.ops().start(0, {&sequence.span, 1}, 5);
      const std::vector<int32_t> tokens = {99, 0, 31, 32, 0};
      fixture.ops().embed(embedding.panels, tokens, 1);
      const auto hidden = fixture.read(fixture.at().hidden, 5 * kWidth);
      for (size_t i = 0; i < 5; ++i) {
        CHECK(same_bits(&hidden[i * kWidth], &embedding.rows[static_cast<size_t>(tokens[i]) * kWidth], kWidth));
      }
      fixture.ops().start(0, {&sequence.span, 1}, 5);
      fixture.ops().embed(embedding.panels, tokens, 8.5f);
      const auto scaled = fixture.read(fixture.at().hidden, 5 * kWidth);
      for (size_t i = 0; i < scaled.size(); ++i) REQUIRE(scaled[i] == hidden[i] * 8.5f);

      const auto states = random_floats(20 * kWidth, 2);
      fixture.write(fixture.at().normed, states);
      std::vector<float> copy(20 * kWidth);
      fixture.ops().states(20, copy.data());
      CHECK(copy == states);
      const std::vector<int32_t> rows = {0, 3, 3, 19};
      std::vector<float> logits(rows.size() * 100), alone(100);
      fixture.ops().logits(embedding.panels, rows, 0.5f, logits.data());
      std::vector<double> expected;
      for (const int32_t row : rows) {
        auto x = doubles(&states[static_cast<size_t>(row) * kWidth], kWidth);
        for (double& value : x) value *= 0.5;
        for (size_t c = 0; c < 100; ++c) expected.push_back(product(embedding, c, x.data()));
      }
      check_near(logits, expected, product_tolerance(kind, format, 2e-6));
      fixture.ops().logits(embedding.panels, std::span(rows).subspan(3), 0.5f, alone.data());
      CHECK(same_bits(alone.data(), &logits[300], 100));
    }
  }
}

}  // namespace
}  // namespace sida
