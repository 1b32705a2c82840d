#include "expert/link_idle.h"

#include "support/test.h"

namespace {

/// Layers of a pass, each of which waits for two loads.
void run_pass(LinkIdle& link, double& now, int layers, double load, double idle) {
  link.pass_begins();
  for (int layer = 0; layer < layers; ++layer) {
    link.layer_begins(now, 2);
    link.waits(2 * load);
    now += 2 * load + idle;
  }
}

TEST_CASE("a link that idles for a quarter of a load wants a chance of three quarters") {
  LinkIdle link;
  double now = 1;
  run_pass(link, now, 6, 0.004, 0.001);
  CHECK(link.least_chance() == doctest::Approx(0.75));
}

TEST_CASE("a link that idles longer than a load takes wants no chance") {
  LinkIdle link;
  double now = 1;
  CHECK(link.least_chance() <= 0);  // nothing known
  run_pass(link, now, 6, 0.001, 0.002);
  CHECK(link.least_chance() <= 0);
}

TEST_CASE("time between passes is no idle time, and layers without loads are") {
  LinkIdle link;
  double now = 1;
  run_pass(link, now, 6, 0.004, 0.001);
  now += 100;
  run_pass(link, now, 6, 0.004, 0.001);
  CHECK(link.least_chance() == doctest::Approx(0.75));
  link.pass_begins();
  for (int layer = 0; layer < 12; ++layer) {
    link.layer_begins(now, 0);
    now += 0.004;
  }
  CHECK(link.least_chance() < 0.1);
}

TEST_CASE("a prompt that computes long says little about the steps after it") {
  LinkIdle link;
  double now = 1;
  run_pass(link, now, 200, 0.004, 0.001);
  run_pass(link, now, 7, 0.004, 0.1);
  CHECK(link.least_chance() > 0.6);
}

TEST_CASE("what the link does now counts more than what it did") {
  LinkIdle link;
  double now = 1;
  run_pass(link, now, 100, 0.001, 0.002);
  run_pass(link, now, 500, 0.004, 0.001);
  CHECK(link.least_chance() == doctest::Approx(0.75).epsilon(0.01));
}

}  // namespace
