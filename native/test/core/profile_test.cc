// The recorder: nesting, threads, a full buffer, and recordings that begin and end while threads record.
#include "core/profile.h"

#include "support/oracle_cases.h"

namespace {

constexpr uint64_t kRoom = 1 << 20;

uint64_t end_of(const ProfileEvent& event) { return event.begin_ns + event.duration_ns; }

/// Whether any two events of the lane are apart, or one lies within the other.
bool nests(const ProfileLane& lane) {
  std::vector<ProfileEvent> events = lane.events;
  std::stable_sort(events.begin(), events.end(), [](const ProfileEvent& a, const ProfileEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.duration_ns > b.duration_ns;
  });
  std::vector<uint64_t> open;
  for (const ProfileEvent& event : events) {
    while (!open.empty() && open.back() <= event.begin_ns) open.pop_back();
    if (!open.empty() && end_of(event) > open.back()) return false;
    open.push_back(end_of(event));
  }
  return true;
}

void nested_events() {
  const ProfileScope pass(ProfileOp::kEncoderPass, {.tokens = 7});
  for (int32_t layer = 0; layer < 3; ++layer) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = layer});
    { const ProfileScope norm(ProfileOp::kNorm); }
    const ProfileScope expert(ProfileOp::kTakeExpert, {.layer = layer, .expert = 5, .tokens = 2});
  }
}

size_t count(const ProfileLane& lane, ProfileOp op) {
  return static_cast<size_t>(std::ranges::count(lane.events, op, &ProfileEvent::op));
}

/// The events of this thread while `action` ran, and how many were dropped.
std::pair<std::vector<ProfileEvent>, uint64_t> events_of(const std::function<void()>& action, uint64_t room = kRoom) {
  profile_start(room);
  action();
  const Profile profile = profile_stop();
  REQUIRE(profile.lanes.size() == 1);
  return {profile.lanes[0].events, profile.dropped};
}

TEST_CASE("profile: ops have names of their own, and categories") {
  std::map<std::string, int> names;
  for (const ProfileOpInfo& info : profile_ops()) {
    CHECK(++names[info.name] == 1);
    CHECK(std::string(info.category) != "");
  }
  CHECK(profile_ops().size() == static_cast<size_t>(ProfileOp::kCount));
}

TEST_CASE("profile: one recording at a time, and nothing is recorded without one") {
  nested_events();
  CHECK_FALSE(profile_on());
  CHECK(error_of(profile_stop, "cannot_run") == "no profile is being recorded");
  profile_start(kRoom);
  CHECK(profile_on());
  CHECK(error_of([] { profile_start(kRoom); }, "cannot_run") == "a profile is being recorded already");
  const Profile profile = profile_stop();
  CHECK(profile.lanes.empty());
  CHECK(profile.dropped == 0);
  CHECK(profile.end_ns >= profile.begin_ns);
  error_of(profile_stop, "cannot_run");
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
    CHECK(nests(lane));
    CHECK(count(lane, ProfileOp::kEncoderPass) == 50);
    CHECK(count(lane, ProfileOp::kLayer) == 150);
    for (const ProfileEvent& event : lane.events) {
      CHECK(event.begin_ns >= profile.begin_ns);
      CHECK(end_of(event) <= profile.end_ns);
      if (event.op == ProfileOp::kEncoderPass) CHECK(event.args.tokens == 7);
      if (event.op == ProfileOp::kTakeExpert) CHECK(event.args.expert == 5);
      if (event.op == ProfileOp::kNorm) CHECK(event.args.layer == -1);
    }
  }
  for (int i = 0; i < 4; ++i) CHECK(events["worker " + std::to_string(i)] == 50 * 10);
}

TEST_CASE("profile: memory stays below the limit; events without room are counted, and the earliest are kept") {
  constexpr size_t kEvents = 100'000;
  for (const uint64_t room : {uint64_t{1}, kRoom}) {
    const auto [events, dropped] = events_of(
        [] {
          for (size_t i = 0; i < kEvents; ++i) {
            const ProfileScope scope(ProfileOp::kNorm, {.tokens = static_cast<int32_t>(i)});
          }
        },
        room);
    CHECK(!events.empty());
    CHECK(dropped > 0);
    CHECK(events.size() + dropped == kEvents);
    if (room > 1) CHECK(events.size() * sizeof(ProfileEvent) <= room);
    for (size_t i = 0; i < events.size(); ++i) REQUIRE(events[i].args.tokens == static_cast<int32_t>(i));
  }
}

TEST_CASE("profile: an event that began before the recording is not in it") {
  const uint64_t before = profile_now();
  const auto events = events_of([&] {
                        profile_record(ProfileOp::kIdle, before, {});
                        profile_record(ProfileOp::kIdle, profile_now(), {});
                      }).first;
  CHECK(events.size() == 1);
}

TEST_CASE("profile: only a successful move has bytes") {
  const auto events = events_of([] {
                        ProfileScope(ProfileOp::kDemand, {.layer = 1, .expert = 2}).moved(4096);
                        try {
                          ProfileScope scope(ProfileOp::kDemand);
                          throw Error("io_error", "torn");
                        } catch (const Error&) {
                        }
                      }).first;
  REQUIRE(events.size() == 2);
  CHECK(events[0].args.bytes == 4096);
  CHECK(events[1].args.bytes == -1);
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
      REQUIRE(nests(lane));
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

struct Recorded {
  Profile profile;
  StoreStats stats;  ///< of all passes
};

/// Runs a case's encoder pass twice within a small budget: on demand, then with all needed experts planned.
Recorded record_passes(const PackedFixture& f, double share) {
  const Case& c = f.list[0];
  std::optional<Engine> engine(std::in_place, f.options({320, 1024, 2}, share));
  Recorded out;
  profile_start(8 << 20);
  for (const bool planned : kBoth) {
    std::vector<ExpertId> loads(planned ? moe_layers_of(*engine, 0) * engine->spec().experts() : 0);
    std::iota(loads.begin(), loads.end(), 0);
    std::vector<double> keys(engine->store().snapshot().state.size(), 1.0);
    const std::vector<double> after(keys.size(), 2.0);
    std::fill_n(keys.begin(), loads.size(), 0);
    const RunStats stats = run(*engine, pass_of(0, c.ids, c.offsets, c.tokens), {keys, after, loads}).stats;
    out.stats.needed += stats.needed;
    out.stats.bytes_moved += stats.bytes_moved;
    engine->release_sequences(c.ids);
  }
  // Transfers that are still running after the last pass end before the figures are taken.
  engine->set_budget(engine->memory().budget());
  out.stats.bytes_moved += engine->store().take_stats().bytes_moved;
  engine.reset();
  out.profile = profile_stop();
  return out;
}

TEST_CASE("profile: events of passes nest, fit into their pass and report every byte") {
  const PackedFixture f("switch-tiny-capacity4");
  for (const double share : {0.25, 0.5}) {
    CASE(share);
    const auto [profile, stats] = record_passes(f, share);
    CHECK(profile.dropped == 0);
    int64_t bytes = 0;
    size_t computed = 0, seen = 0;
    for (const ProfileLane& lane : profile.lanes) {
      CHECK(nests(lane));
      for (const ProfileEvent& event : lane.events) {
        if (event.op == ProfileOp::kDemand || event.op == ProfileOp::kPrefetch) {
          CHECK(lane.name == "transfers");
          bytes += std::max<int64_t>(event.args.bytes, 0);
        }
        computed += event.op == ProfileOp::kTakeExpert;
        if (event.op != ProfileOp::kEncoderPass) continue;
        ++seen;
        uint64_t layers = 0, leaves = 0;
        for (const ProfileEvent& inner : lane.events) {
          if (inner.begin_ns < event.begin_ns || end_of(inner) > end_of(event)) continue;
          if (inner.op == ProfileOp::kLayer) layers += inner.duration_ns;
          using enum ProfileOp;
          const auto all = {kEmbed, kNorm, kAttend, kDense, kRoute, kExperts, kStall, kCombine};
          if (std::ranges::find(all, inner.op) != all.end()) leaves += inner.duration_ns;
        }
        CHECK(layers > 0);
        CHECK(layers <= event.duration_ns);
        CHECK(leaves > 0);
        CHECK(leaves <= event.duration_ns);
      }
    }
    CHECK(seen == 2);
    CHECK(computed == stats.needed);
    CHECK(bytes == static_cast<int64_t>(stats.bytes_moved));
    CHECK(bytes > 0);
  }
}

}  // namespace
