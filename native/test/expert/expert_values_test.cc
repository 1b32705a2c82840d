// Small values of the store: how idle the link is, where blocks lie, how often an expert is used.
#include "expert/link_idle.h"
#include "expert/use_rate.h"
#include "support/test.h"
#include "weights/expert_layout.h"

namespace {

/// Passes over a link, each of whose layers waits for two loads.
struct Passes {
  LinkIdle link;
  double now = 1;

  void run(int layers, double load, double idle) {
    link.pass_begins();
    for (int layer = 0; layer < layers; ++layer) {
      link.layer_begins(now, 2);
      link.waits(2 * load);
      now += 2 * load + idle;
    }
  }
};

TEST_CASE("link idle: a link that idles for a quarter of a load wants a chance of three quarters") {
  Passes p;
  CHECK(p.link.least_chance() <= 0);  // nothing known
  p.run(6, 0.004, 0.001);
  CHECK(p.link.least_chance() == doctest::Approx(0.75));
  // Time between passes is no idle time, and layers without loads are.
  p.now += 100;
  p.run(6, 0.004, 0.001);
  CHECK(p.link.least_chance() == doctest::Approx(0.75));
  p.link.pass_begins();
  for (int layer = 0; layer < 12; ++layer) {
    p.link.layer_begins(p.now, 0);
    p.now += 0.004;
  }
  CHECK(p.link.least_chance() < 0.1);
}

TEST_CASE("link idle: one that idles longer than a load takes wants no chance; what it does now counts more") {
  Passes p;
  p.run(100, 0.001, 0.002);
  CHECK(p.link.least_chance() <= 0);
  p.run(500, 0.004, 0.001);
  CHECK(p.link.least_chance() == doctest::Approx(0.75).epsilon(0.01));
}

TEST_CASE("link idle: a prompt that computes long says little about the steps after it") {
  Passes p;
  p.run(200, 0.004, 0.001);
  p.run(7, 0.004, 0.1);
  CHECK(p.link.least_chance() > 0.6);
}

TEST_CASE("expert layout: blocks stand one after the other, also where layers differ in size and count") {
  const ExpertShape shape{64, 64, Activation::kRelu, 2, 4, false, {0, 3, 7}};
  const ExpertFormats wide{kF32Format, kF32Format, kF32Format}, narrow{kInt8Format, kInt8Format, kInt8Format};
  const ExpertLayout layout = make_expert_layout(shape, std::vector{wide, narrow});
  REQUIRE(layout.block_bytes(2) > layout.block_bytes(3));
  uint64_t end = 0;
  for (ExpertId id = 0; id < layout.experts(); ++id) {
    CHECK(layout.blocks_end(id) == end);
    end += layout.block_bytes(id);
  }
  CHECK(layout.blocks_end(layout.experts()) == end);
}

UseRate rate_of(const std::vector<bool>& turns) {
  UseRate rate;
  UseRate::Shares shares{};
  for (const bool needed : turns) {
    const uint64_t before = rate.turns();
    rate.turn(needed, before + 1, UseRate::Weights(before), UseRate::Weights(before + 1), shares);
  }
  return rate;
}

TEST_CASE("use rate: lies between 0 and 1, and is 0 before the first turn") {
  CHECK(UseRate().value() == 0);
  CHECK(rate_of({false, false, false}).value() == 0);
  const UseRate always = rate_of(std::vector<bool>(1000, true));
  CHECK(always.value() == doctest::Approx(1).epsilon(0.001));
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

TEST_CASE("use rate: the value after one more turn, with and without a need") {
  std::vector<bool> turns;
  for (int turn = 0; turn < 200; ++turn) {
    const UseRate before = rate_of(turns);
    for (const bool needed : {true, false}) {
      std::vector<bool> longer = turns;
      longer.push_back(needed);
      const double after = before.unneeded() + (needed ? UseRate::Weights(before.turns()).gain() : 0);
      CHECK(rate_of(longer).value() == doctest::Approx(after).epsilon(1e-12));
    }
    turns.push_back(turn % 3 == 1);
  }
}

}  // namespace
