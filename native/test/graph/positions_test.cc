// Positions of tokens, and the cosines and sines that rotate by them.
#include "graph/token_positions.h"
#include "ops/rotary_table.h"
#include "support/test.h"

namespace {

TEST_CASE("token positions: count from the padding's id on, and padding has none") {
  const Sinusoids sinusoids{{1.0f}, 1};
  const std::vector<int32_t> tokens{7, 1, 8, 9, 1, 1, 5};
  const KvPages pages;
  std::vector<uint32_t> positions;
  // A new sequence, and one that goes on after 10 tokens, 4 of them padding.
  const SequenceSpan spans[] = {{0, 4, 0, &pages}, {4, 3, 10, &pages, nullptr, 0, 4}};
  token_positions(sinusoids, tokens, spans, positions);
  CHECK(positions == std::vector<uint32_t>{2, 0, 3, 4, 0, 0, 8});
}

TEST_CASE("token positions: padding is counted only where positions are sinusoids") {
  const std::vector<int32_t> tokens{7, 1, 8, 1};
  CHECK(count_padding(Sinusoids{{1.0f}, 1}, tokens) == 2);
  CHECK(count_padding(Sinusoids{{1.0f}, 3}, tokens) == 0);
  CHECK(count_padding(Rope{}, tokens) == 0);
  CHECK(count_padding(RelativeBias{}, tokens) == 0);
}

TEST_CASE("rotary table: cosines and sines of float32 angles, rounded once") {
  Rope rope;
  for (int j = 0; j < 32; ++j) rope.inverse_frequencies.push_back(std::pow(1e6f, -static_cast<float>(j) / 32));
  std::vector<float> cosines(32), sines(32);
  size_t different = 0, angles = 0;
  // Up to a million positions; odd steps, so that all quarters of a turn come.
  for (size_t position = 0; position < (1 << 20); position = position * 5 / 4 + 1) {
    rotary_row(rope, position, cosines.data(), sines.data());
    for (size_t j = 0; j < 32; ++j, ++angles) {
      const double angle = static_cast<float>(position) * rope.inverse_frequencies[j];
      CHECK(std::abs(cosines[j] - std::cos(angle)) <= 6e-8 * std::abs(std::cos(angle)) + 1e-16);
      CHECK(std::abs(sines[j] - std::sin(angle)) <= 6e-8 * std::abs(std::sin(angle)) + 1e-16);
      different += cosines[j] != static_cast<float>(std::cos(angle));
      different += sines[j] != static_cast<float>(std::sin(angle));
    }
  }
  CHECK(angles > 1000);
  CHECK(different == 0);
}

TEST_CASE("rotary table: the magnitude scales both") {
  const Rope plain{{1.0f, 0.1f}, 1.0f}, scaled{{1.0f, 0.1f}, 1.5f};
  float a[4], b[4];
  rotary_row(plain, 12345, a, a + 2);
  rotary_row(scaled, 12345, b, b + 2);
  for (size_t i = 0; i < 4; ++i) CHECK(b[i] == 1.5f * a[i]);
}

}  // namespace
