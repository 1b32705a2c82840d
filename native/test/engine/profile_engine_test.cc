// The events of real passes: they nest, take no longer than their pass, and report every byte that moved.
#include <map>
#include <optional>

#include "core/profile.h"
#include "doctest/doctest.h"
#include "support/oracle_cases.h"
#include "support/profile_checks.h"
#include "support/repo_paths.h"

namespace sida {
namespace {

using testing::end_of;

struct Recorded {
  Profile profile;
  StoreStats stats;  ///< of all passes
  size_t passes = 0;
};

/// Runs a case's encoder pass twice within a small budget: on demand, then with all needed experts planned.
Recorded record_passes(const std::string& directory, const std::string& pack, double share) {
  const testing::Cases cases(directory);
  std::optional<Engine> engine(std::in_place, testing::options_for(pack, {320, 1024, 2}, share));
  const size_t experts = engine->spec().experts();
  const size_t layers = testing::moe_layers_of(*engine, 0);
  Recorded out;
  profile_start(8 << 20);
  for (const bool planned : {false, true}) {
    const testing::Inputs in = testing::inputs_of(cases, "c0.");
    std::vector<uint16_t> dispatch(layers * in.tokens.size());
    std::vector<uint8_t> found(layers * experts);
    std::vector<ExpertId> loads;
    for (ExpertId id = 0; planned && id < found.size(); ++id) loads.push_back(id);
    std::vector<double> keys(engine->store().snapshot().state.size(), 1.0);
    const std::vector<double> after(keys.size(), 2.0);
    for (size_t id = 0; id < loads.size(); ++id) keys[id] = 0;
    BatchOutput output;
    output.dispatch = dispatch.data();
    output.found = found.data();
    const RunStats stats =
        engine->run(testing::pass_of(0, in.ids, in.offsets, in.tokens), {keys, after, loads}, output);
    out.stats.needed += stats.needed;
    out.stats.bytes_moved += stats.bytes_moved;
    ++out.passes;
    engine->release_sequences(in.ids);
  }
  // Transfers that are still running after the last pass end before the figures are taken.
  engine->set_budget(engine->memory().budget());
  out.stats.bytes_moved += engine->store().take_stats().bytes_moved;
  engine.reset();
  out.profile = profile_stop();
  return out;
}

TEST_CASE("profile: events of passes nest, fit into their pass and report every byte") {
  const std::string directory = testing::fixture("switch-tiny-capacity4");
  testing::TempDir pack;
  testing::write_pack(directory, pack.path());
  for (const double share : {0.25, 0.5}) {
    CAPTURE(share);
    const auto [profile, stats, passes] = record_passes(directory, pack.path(), share);
    CHECK(profile.dropped == 0);
    int64_t bytes = 0;
    size_t computed = 0, seen = 0;
    for (const ProfileLane& lane : profile.lanes) {
      CHECK(testing::nests(lane));
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
          const bool leaf = inner.op == ProfileOp::kEmbed || inner.op == ProfileOp::kNorm ||
                            inner.op == ProfileOp::kAttend || inner.op == ProfileOp::kDense ||
                            inner.op == ProfileOp::kRoute || inner.op == ProfileOp::kExperts ||
                            inner.op == ProfileOp::kStall || inner.op == ProfileOp::kCombine;
          if (leaf) leaves += inner.duration_ns;
        }
        CHECK(layers > 0);
        CHECK(layers <= event.duration_ns);
        CHECK(leaves > 0);
        CHECK(leaves <= event.duration_ns);
      }
    }
    CHECK(seen == passes);
    CHECK(computed == stats.needed);
    CHECK(bytes == static_cast<int64_t>(stats.bytes_moved));
    CHECK(bytes > 0);
  }
}

}  // namespace
}  // namespace sida
