#include "expert/use_rate.h"

#include "support/test.h"

namespace {

UseRate rate_of(const std::vector<bool>& turns) {
  UseRate rate;
  for (const bool needed : turns) rate.turn(needed, rate.turns() + 1);
  return rate;
}

TEST_CASE("use rate: lies between 0 and 1, and is 0 before the first turn") {
  CHECK(UseRate().value() == 0);
  CHECK(rate_of({false, false, false}).value() == 0);
  const UseRate always = rate_of(std::vector<bool>(1000, true));
  CHECK(always.value() == doctest::Approx(1));
  CHECK(always.value() <= 1);
  CHECK(always.turns() == 1000);
}

TEST_CASE("use rate: of as many uses, recent ones count more") {
  CHECK(rate_of({false, false, true, true}).value() > rate_of({true, true, false, false}).value());
}

TEST_CASE("use rate: one use just now counts less than steady use") {
  std::vector<bool> once(64, false), steady(64, false);
  once.back() = true;
  for (size_t i = 0; i < steady.size(); i += 2) steady[i] = true;
  CHECK(rate_of(once).value() < rate_of(steady).value());
}

TEST_CASE("use rate: comes near the share of turns where uses are even") {
  std::vector<bool> turns;
  for (int turn = 0; turn < 4000; ++turn) turns.push_back(turn % 4 == 0);
  // At once after a use the shortest window says more, before it less.
  double sum = 0;
  for (int turn = 0; turn < 4; ++turn) {
    turns.push_back(turn == 0);
    sum += rate_of(turns).value() / 4;
  }
  CHECK(sum == doctest::Approx(0.25).epsilon(0.02));
}

TEST_CASE("use rate: after() is the value after one more turn") {
  std::vector<bool> turns;
  for (int turn = 0; turn < 200; ++turn) {
    const UseRate before = rate_of(turns);
    for (const bool needed : {true, false}) {
      UseRate rate = before;
      rate.turn(needed, turns.size() + 1);
      CHECK(rate.value() == before.after(needed));
    }
    turns.push_back(turn % 3 == 1);
  }
}

}  // namespace
