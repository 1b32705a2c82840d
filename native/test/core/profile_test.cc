// The recorder: nesting, threads, a full buffer, and recordings that begin and end while threads record.
#include "core/profile.h"

#include <atomic>
#include <map>
#include <thread>

#include "core/error.h"
#include "doctest/doctest.h"
#include "support/error_checks.h"
#include "support/profile_checks.h"

namespace sida {
namespace {

constexpr uint64_t kRoom = 1 << 20;

void nested_events() {
  const ProfileScope pass(ProfileOp::kEncoderPass, {.tokens = 7});
  for (int32_t layer = 0; layer < 3; ++layer) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = layer});
    { const ProfileScope norm(ProfileOp::kNorm); }
    const ProfileScope expert(ProfileOp::kTakeExpert, {.layer = layer, .expert = 5, .tokens = 2});
  }
}

size_t count(const ProfileLane& lane, ProfileOp op) {
  return static_cast<size_t>(
      std::count_if(lane.events.begin(), lane.events.end(), [&](const auto& e) { return e.op == op; }));
}

TEST_CASE("profile: ops have names of their own, and categories") {
  std::map<std::string, int> names;
  for (const ProfileOpInfo& info : profile_ops()) {
    CHECK(++names[info.name] == 1);
    CHECK(std::string(info.category) != "");
  }
  CHECK(profile_ops().size() == static_cast<size_t>(ProfileOp::kCount));
}

TEST_CASE("profile: nothing is recorded where no recording runs") {
  nested_events();
  CHECK_FALSE(profile_on());
  profile_start(kRoom);
  CHECK(profile_on());
  const Profile profile = profile_stop();
  CHECK(profile.lanes.empty());
  CHECK(profile.dropped == 0);
  CHECK(profile.end_ns >= profile.begin_ns);
}

TEST_CASE("profile: one recording at a time") {
  CHECK(testing::error_of(profile_stop, "cannot_run") == "no profile is being recorded");
  profile_start(kRoom);
  CHECK(testing::error_of([] { profile_start(kRoom); }, "cannot_run") ==
        "a profile is being recorded already");
  profile_stop();
  testing::error_of(profile_stop, "cannot_run");
}

TEST_CASE("profile: events of every thread nest, with names and arguments") {
  profile_start(kRoom);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      profile_name_thread("worker " + std::to_string(i));
      for (int pass = 0; pass < 50; ++pass) nested_events();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Profile profile = profile_stop();
  REQUIRE(profile.lanes.size() == 4);
  CHECK(profile.dropped == 0);
  std::map<std::string, size_t> events;
  for (const ProfileLane& lane : profile.lanes) {
    events[lane.name] += lane.events.size();
    CHECK(testing::nests(lane));
    CHECK(count(lane, ProfileOp::kEncoderPass) == 50);
    CHECK(count(lane, ProfileOp::kLayer) == 150);
    for (const ProfileEvent& event : lane.events) {
      CHECK(event.begin_ns >= profile.begin_ns);
      CHECK(testing::end_of(event) <= profile.end_ns);
      if (event.op == ProfileOp::kEncoderPass) CHECK(event.args.tokens == 7);
      if (event.op == ProfileOp::kTakeExpert) CHECK(event.args.expert == 5);
      if (event.op == ProfileOp::kNorm) CHECK(event.args.layer == -1);
    }
  }
  for (int i = 0; i < 4; ++i) CHECK(events["worker " + std::to_string(i)] == 50 * 10);
}

TEST_CASE("profile: events without room are counted, and the earliest are kept") {
  constexpr size_t kEvents = 5000;
  profile_start(1);
  for (size_t i = 0; i < kEvents; ++i)
    const ProfileScope scope(ProfileOp::kNorm, {.tokens = static_cast<int32_t>(i)});
  const Profile profile = profile_stop();
  REQUIRE(profile.lanes.size() == 1);
  const auto& events = profile.lanes[0].events;
  CHECK(events.size() > 0);
  CHECK(events.size() + profile.dropped == kEvents);
  for (size_t i = 0; i < events.size(); ++i) REQUIRE(events[i].args.tokens == static_cast<int32_t>(i));
}

TEST_CASE("profile: memory stays below the limit") {
  profile_start(kRoom);
  for (size_t i = 0; i < 100'000; ++i) const ProfileScope scope(ProfileOp::kNorm);
  const Profile profile = profile_stop();
  REQUIRE(profile.lanes.size() == 1);
  CHECK(profile.dropped > 0);
  CHECK(profile.lanes[0].events.size() * sizeof(ProfileEvent) <= kRoom);
}

TEST_CASE("profile: an event that began before the recording is not in it") {
  const uint64_t before = profile_now();
  profile_start(kRoom);
  profile_record(ProfileOp::kIdle, before, {});
  profile_record(ProfileOp::kIdle, profile_now(), {});
  const Profile profile = profile_stop();
  REQUIRE(profile.lanes.size() == 1);
  CHECK(profile.lanes[0].events.size() == 1);
}

TEST_CASE("profile: only a successful move has bytes") {
  profile_start(kRoom);
  {
    ProfileScope scope(ProfileOp::kDemand, {.layer = 1, .expert = 2});
    scope.moved(4096);
  }
  try {
    ProfileScope scope(ProfileOp::kDemand);
    throw Error("io_error", "torn");
  } catch (const Error&) {
  }
  const Profile profile = profile_stop();
  REQUIRE(profile.lanes.size() == 1);
  REQUIRE(profile.lanes[0].events.size() == 2);
  CHECK(profile.lanes[0].events[0].args.bytes == 4096);
  CHECK(profile.lanes[0].events[1].args.bytes == -1);
}

TEST_CASE("profile: recordings begin and end while threads record, start and exit") {
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stopping) nested_events();
    });
  }
  threads.emplace_back([&] {
    while (!stopping) std::thread(nested_events).join();
  });
  size_t recorded = 0;
  for (int i = 0; i < 200 || recorded == 0; ++i) {
    // Some of them too small.
    profile_start(i % 2 == 0 ? kRoom : 1);
    std::this_thread::yield();
    const Profile profile = profile_stop();
    for (const ProfileLane& lane : profile.lanes) {
      REQUIRE(testing::nests(lane));
      for (const ProfileEvent& event : lane.events) {
        REQUIRE(event.op < ProfileOp::kCount);
        REQUIRE(event.begin_ns >= profile.begin_ns);
      }
      recorded += lane.events.size();
    }
  }
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(recorded > 0);
}

}  // namespace
}  // namespace sida
