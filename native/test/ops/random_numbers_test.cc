#include "ops/random_numbers.h"

#include <algorithm>

#include "doctest/doctest.h"

using namespace sida;

TEST_CASE("philox gives the published answers") {
  // tests/kat_vectors of Random123, "philox4x32 10".
  using Block = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a random number is the first 53 bits of its block, by all bits of seed and position") {
  // Counter 0 and key 0: the block above, its second word high.
  CHECK(uniform_number(0, 0) == static_cast<double>(0xe169c58d6627e8d5 >> 11) / 9007199254740992.0);
  CHECK(uniform_number(0, 1) != uniform_number(1, 0));
  for (int bit = 0; bit < 64; ++bit) {
    CHECK(uniform_number(uint64_t{1} << bit, 0) != uniform_number(0, 0));
    CHECK(uniform_number(0, uint64_t{1} << bit) != uniform_number(0, 0));
  }
}

TEST_CASE("random numbers fill [0, 1) evenly") {
  double sum = 0;
  double least = 1;
  double most = 0;
  for (uint64_t position = 0; position < 100000; ++position) {
    const double number = uniform_number(7, position);
    sum += number;
    least = std::min(least, number);
    most = std::max(most, number);
  }
  CHECK(least >= 0);
  CHECK(most < 1);
  // Five standard deviations of the mean.
  CHECK(sum / 100000 == doctest::Approx(0.5).epsilon(0.01));
}
