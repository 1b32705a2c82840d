// Small values of the store: how idle the link is, where blocks lie, how often an expert is used.
#include "expert/link_idle.h"
#include "expert/stripe_layout.h"
#include "expert/use_rate.h"
#include "support/test.h"

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

TEST_CASE("stripe layout: one file holds the blocks by id, under the name of old packs") {
  const StripeLayout layout({}, 10, 8192);
  CHECK(expert_file_name({}, 0) == "experts.sida");
  CHECK(expert_file_name({2, ""}, 1) == "experts.sida.1");
  CHECK(layout.file_bytes(0) == 10 * 8192);
  CHECK(layout.place(7).file == 0);
  CHECK(layout.place(7).offset == 7 * 8192);
}

TEST_CASE("stripe layout: every block has a place of its own, and files hold as many as lie in them") {
  for (const auto& [files, experts] : grid(Sizes{1, 2, 3, 5, 64}, Sizes{1, 4, 17, 96})) {
    const StripeLayout layout({files, "a pack"}, experts, 4096);
    std::set<std::pair<size_t, uint64_t>> places;
    std::vector<uint64_t> ends(files);
    for (ExpertId id = 0; id < experts; ++id) {
      const auto [file, offset] = layout.place(id);
      REQUIRE(file < files);
      places.insert({file, offset});
      ends[file] = std::max(ends[file], offset + 4096);
    }
    CHECK(places.size() == experts);
    for (size_t file = 0; file < files; ++file) CHECK(layout.blocks_end(file) == ends[file]);
  }
}

TEST_CASE("stripe layout: a number of files out of range is refused with the number") {
  for (const size_t files : {0, 65}) {
    const auto numbers = numbers_of([&] { StripeLayout({files, ""}, 4, 4096); }, "invalid_request");
    CHECK(numbers.at("stripes") == static_cast<double>(files));
  }
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
