#include "model/token_positions.h"

#include <vector>

#include "doctest/doctest.h"

namespace {

using namespace sida;

TEST_CASE("token positions: count from the padding's id on, and padding has none") {
  const Sinusoids sinusoids{{1.0f}, 1};
  const std::vector<int32_t> tokens{7, 1, 8, 9, 1, 1, 5};
  const std::vector<uint32_t> pages;
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

}  // namespace
