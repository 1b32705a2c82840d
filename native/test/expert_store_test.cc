// The expert store over a real file: residency, eviction, pins, resizing, failures.
#include "expert/expert_store.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "allocation_count.h"
#include "core/error.h"
#include "core/file.h"
#include "doctest/doctest.h"
#include "error_checks.h"
#include "repo_paths.h"
#include "test_pack.h"

namespace sida {
namespace {

using testing::TempDir;

constexpr size_t kLayers = 3;
constexpr size_t kExperts = 6;

/// A store of 18 experts whose blocks are filled with their id.
class Fixture {
 public:
  explicit Fixture(size_t slots, uint64_t host_bytes = 0, ReadTuning reads = {}, size_t stripes = 1)
      : layout(make_expert_layout(kF32Format, 16, 32, kLayers, kExperts)),
        backend(make_cpu_backend()),
        memory(*backend, slots * layout.block_bytes) {
    const StripeLayout striped({stripes, "test"}, layout.experts(), layout.block_bytes);
    for (size_t i = 0; i < stripes; ++i) paths.push_back(dir.path() + "/" + striped.file_name(i));
    std::vector<std::ofstream> files(paths.begin(), paths.end());
    for (uint32_t id = 0; id < layout.experts(); ++id) {
      const std::vector<uint32_t> block(layout.block_bytes / 4, id);
      const auto place = striped.place(id);
      files[place.file].seekp(static_cast<long>(place.offset));
      files[place.file].write(reinterpret_cast<const char*>(block.data()),
                              static_cast<long>(layout.block_bytes));
    }
    for (size_t i = 0; i < stripes; ++i) {
      const std::string seal = striped.seal(i);
      files[i].seekp(static_cast<long>(striped.blocks_end(i)));
      files[i].write(seal.data(), static_cast<long>(seal.size()));
    }
    files.clear();
    disk.emplace(striped, paths);
    host.emplace(layout.block_bytes, host_bytes);
    store.emplace(layout, memory, *disk, *host, SimulatedLink{}, reads, slots);
  }

  /// Uses experts of a layer; checks that each block is the right one. Returns the Found codes.
  std::vector<uint8_t> visit(size_t layer, std::vector<uint16_t> needed) {
    std::vector<uint8_t> found(kExperts);
    std::vector<uint16_t> seen;
    {
      LayerVisit visit(*store, layer, needed, found.data());
      while (const auto expert = visit.next()) {
        seen.push_back(expert->index);
        const auto* words = reinterpret_cast<const uint32_t*>(expert->block);
        const uint32_t id = static_cast<uint32_t>(layer * kExperts) + expert->index;
        REQUIRE(
            std::all_of(words, words + layout.block_bytes / 4, [&](uint32_t word) { return word == id; }));
        REQUIRE(memory.used() <= memory.budget());
      }
    }
    std::sort(seen.begin(), seen.end());
    CHECK(seen == needed);
    store->check_integrity();
    return found;
  }

  /// A plan by its exceptions: an expert's key is 5, the same before and after its use, where not said
  /// otherwise.
  void start_pass(const std::vector<ExpertId>& loads, const std::map<ExpertId, double>& keys = {},
                  const std::map<ExpertId, double>& after = {}, double expendable = 0) {
    std::vector<double> before(layout.experts(), 5.0);
    for (const auto& [id, key] : keys) before[id] = key;
    std::vector<double> later = before;
    for (const auto& [id, key] : after) later[id] = key;
    for (const ExpertId id : loads) {
      if (!keys.contains(id)) before[id] = 0;
    }
    store->start_pass({before, later, loads, expendable});
  }

  ResidencyState state(ExpertId id) const { return static_cast<ResidencyState>(store->snapshot().state[id]); }

  /// Waits until nothing is on its way.
  void settle() const {
    for (;;) {
      const auto states = store->snapshot().state;
      if (std::count(states.begin(), states.end(), static_cast<uint8_t>(ResidencyState::kLoading)) == 0)
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  TempDir dir;
  std::vector<std::string> paths;
  ExpertLayout layout;
  std::unique_ptr<Backend> backend;
  DeviceMemory memory;
  std::optional<DiskTier> disk;
  std::optional<HostTier> host;
  std::optional<ExpertStore> store;
};

TEST_CASE("expert store: loads on demand, then finds the expert resident") {
  Fixture f(4);
  CHECK(f.visit(0, {1, 3})[1] == static_cast<uint8_t>(Found::kOnDemand));
  CHECK(f.visit(0, {1, 3})[3] == static_cast<uint8_t>(Found::kResident));
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.needed == 4);
  CHECK(stats.resident == 2);
  CHECK(stats.on_demand == 2);
  CHECK(stats.bytes_moved == 2 * f.layout.block_bytes);
}

TEST_CASE("expert store: one slot serves a layer that needs every expert") {
  Fixture f(1);
  for (size_t layer = 0; layer < kLayers; ++layer) f.visit(layer, {0, 1, 2, 3, 4, 5});
  CHECK(f.store->take_stats().bytes_moved == 18 * f.layout.block_bytes);
}

TEST_CASE("expert store: evicts what the ranking names first") {
  Fixture f(2);
  f.visit(0, {0});
  f.visit(0, {1});
  f.visit(0, {0});  // 1 is now the least recently used
  f.visit(1, {2});
  const auto snapshot = f.store->snapshot();
  CHECK(snapshot.state[0] == static_cast<uint8_t>(ResidencyState::kResident));
  CHECK(snapshot.state[1] == static_cast<uint8_t>(ResidencyState::kAbsent));
}

TEST_CASE("expert store: a prefetch makes the expert resident before it is needed, or late") {
  Fixture f(4);
  f.start_pass({0, 1, 2});
  const auto found = f.visit(0, {0, 1, 2, 5});
  for (const size_t i : {0, 1, 2}) {
    const bool ahead = found[i] == static_cast<uint8_t>(Found::kPrefetched) ||
                       found[i] == static_cast<uint8_t>(Found::kLate);
    CHECK(ahead);
  }
  CHECK(found[5] == static_cast<uint8_t>(Found::kOnDemand));
  CHECK(f.visit(0, {0})[0] == static_cast<uint8_t>(Found::kResident));
}

TEST_CASE("expert store: prefetches never take more slots than there are") {
  Fixture f(2);
  f.start_pass({0, 1, 2, 3, 4});
  f.visit(1, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("expert store: the largest key goes first, and a key counts only until its expert is used") {
  Fixture f(3);
  f.visit(0, {0, 1, 2});
  // 1 is needed last; 0 has a near key, but none after this pass.
  f.start_pass({}, {{0, 1}, {1, 9}, {2, 4}}, {{0, 99}, {1, 9}, {2, 4}});
  f.visit(1, {0});
  CHECK(f.state(1) == ResidencyState::kAbsent);
  CHECK(f.state(0) == ResidencyState::kResident);
  f.visit(0, {0});
  f.visit(1, {1});
  CHECK(f.state(0) == ResidencyState::kAbsent);
  CHECK(f.state(2) == ResidencyState::kResident);
}

TEST_CASE("expert store: a prefetch evicts only what is needed later than itself") {
  Fixture f(2);
  f.visit(0, {0, 1});
  f.start_pass({6, 7, 8}, {{0, 2}, {1, 9}, {6, 3}, {7, 4}, {8, 5}}, {{0, 8}});
  f.settle();
  CHECK(f.state(6) == ResidencyState::kResident);
  CHECK(f.state(1) == ResidencyState::kAbsent);
  // 7 would have to evict 0 or 6, both nearer; with 0 used and not needed before 8 it may.
  CHECK(f.state(7) == ResidencyState::kAbsent);
  CHECK(f.visit(0, {0})[0] == static_cast<uint8_t>(Found::kResident));
  f.settle();
  CHECK(f.state(7) == ResidencyState::kResident);
  CHECK(f.state(6) == ResidencyState::kResident);
  CHECK(f.visit(1, {0, 1})[1] == static_cast<uint8_t>(Found::kPrefetched));
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.prefetches_wasted == 0);
  CHECK(stats.bytes_moved >= 4 * f.layout.block_bytes);
}

TEST_CASE("expert store: a prefetch evicts only who is expendable, and who it brings back is so no longer") {
  Fixture f(2);
  f.visit(0, {0, 1});
  // 6 takes the slot of 0, which is needed again at 3; 1 may go once it has been used.
  f.start_pass({6, 0, 7}, {{0, 103}, {1, 9}, {6, 1}, {7, 5}}, {{1, 150}}, 100);
  f.settle();
  CHECK(f.state(0) == ResidencyState::kAbsent);
  CHECK(f.state(1) == ResidencyState::kResident);
  CHECK(f.state(6) == ResidencyState::kResident);
  f.visit(0, {1});
  f.settle();
  CHECK(f.state(0) == ResidencyState::kResident);
  CHECK(f.state(1) == ResidencyState::kAbsent);
  CHECK(f.state(7) == ResidencyState::kAbsent);
  CHECK(f.store->take_stats().prefetches_wasted == 0);
}

TEST_CASE("expert store: a planned load of who was resident and had to go is late") {
  Fixture f(1);
  f.visit(0, {0});
  f.start_pass({6, 0}, {{0, 103}, {6, 1}}, {}, 100);
  f.settle();
  CHECK(f.state(0) == ResidencyState::kAbsent);
  CHECK(f.visit(0, {0})[0] == static_cast<uint8_t>(Found::kLate));
}

TEST_CASE("expert store: a layer with enough at hand waits for a better victim among its own") {
  const auto resident_after = [](std::vector<uint16_t> needed, double expendable) {
    Fixture f(4, 0, {2, 4096});
    f.visit(0, {0, 1, 2});
    f.visit(1, {0});
    f.start_pass({}, {{1, 0}, {2, 0}, {6, 1}}, {{0, 150}}, expendable);
    f.visit(0, std::move(needed));
    return f.state(6) == ResidencyState::kResident;
  };
  CHECK(resident_after({0, 1, 2, 3}, 100));
  // Nothing says who may go.
  CHECK_FALSE(resident_after({0, 1, 2, 3}, 0));
  // Too little to go on with.
  CHECK_FALSE(resident_after({0, 3}, 100));
}

TEST_CASE("expert store: a prefetch evicted before its use is wasted; a planned load not begun is late") {
  Fixture f(1);
  f.start_pass({0}, {{0, 0}});
  f.settle();
  f.start_pass({6}, {{0, 9}, {6, 1}});
  f.settle();
  CHECK(f.state(6) == ResidencyState::kResident);
  CHECK(f.store->take_stats().prefetches_wasted == 1);
  f.start_pass({7}, {{6, 1}, {7, 2}});
  CHECK(f.visit(1, {1})[1] == static_cast<uint8_t>(Found::kLate));
  CHECK(f.visit(1, {2})[2] == static_cast<uint8_t>(Found::kOnDemand));
}

TEST_CASE("expert store: prefetches the next plan does not want are cancelled while they wait") {
  Fixture f(12);
  f.start_pass({0, 1, 2, 3, 4, 5, 6, 7});
  f.start_pass({17});
  f.settle();
  const StoreStats stats = f.store->take_stats();
  CHECK(f.state(17) == ResidencyState::kResident);
  CHECK(stats.bytes_moved == (stats.prefetches_begun - stats.prefetches_cancelled) * f.layout.block_bytes);
  const auto states = f.store->snapshot().state;
  CHECK(static_cast<uint64_t>(std::count(states.begin(), states.end(), 2)) ==
        stats.prefetches_begun - stats.prefetches_cancelled);
}

TEST_CASE("expert store: a plan may change in the middle of a pass") {
  Fixture f(3);
  f.visit(0, {0, 1, 2});
  f.start_pass({}, {}, {{0, 1}, {1, 2}, {2, 3}});
  f.visit(0, {0, 1, 2});
  const std::vector<double> keys(18, 5.0);
  std::vector<double> after(18, 5.0);
  after[0] = 50;
  f.store->update_plan({keys, after, {}});
  f.visit(1, {0});
  CHECK(f.state(0) == ResidencyState::kAbsent);
  CHECK_THROWS_AS(f.store->update_plan({keys, std::span(after).first(3), {}}), Error);
  const std::vector<ExpertId> unknown{18};
  CHECK_THROWS_AS(f.store->update_plan({keys, after, unknown}), Error);
}

TEST_CASE("expert store: a pinned expert stays; one slot must remain unpinned") {
  Fixture f(3);
  const std::vector<ExpertId> two{0, 7};
  f.store->pin(two, true);
  for (size_t layer = 0; layer < kLayers; ++layer) f.visit(layer, {0, 1, 2, 3, 4, 5});
  CHECK(f.store->snapshot().state[0] == static_cast<uint8_t>(ResidencyState::kResident));
  CHECK(f.store->snapshot().state[7] == static_cast<uint8_t>(ResidencyState::kResident));
  const std::vector<ExpertId> third{9};
  CHECK_THROWS_AS(f.store->pin(third, true), Error);
  CHECK_THROWS_AS(f.store->resize(2), Error);
  f.store->check_integrity();
  f.store->pin(two, false);
  f.store->resize(1);
  f.visit(2, {0, 5});
}

TEST_CASE("expert store: shrinking returns memory, growing takes it within the budget") {
  Fixture f(6);
  f.visit(0, {0, 1, 2, 3, 4, 5});
  f.store->resize(2);
  CHECK(f.memory.used() == 2 * f.layout.block_bytes);
  f.store->check_integrity();
  f.store->resize(6);
  CHECK(f.memory.used() == 6 * f.layout.block_bytes);
  CHECK_THROWS_AS(f.store->resize(7), Error);
  f.visit(1, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("expert store: the host tier serves what it has read before, least recently used out") {
  Fixture f(1, make_expert_layout(kF32Format, 16, 32, 1, 1).block_bytes * 8);
  for (int round = 0; round < 3; ++round) f.visit(0, {0, 1, 2, 3, 4, 5});
  CHECK(f.host->experts() == 6);
  f.visit(1, {0, 1, 2, 3, 4, 5});
  CHECK(f.host->experts() == 8);
  CHECK(f.host->used() <= f.host->budget());
}

TEST_CASE("expert store: a file that shrinks under it is a typed error and leaves no leases behind") {
  Fixture f(2);
  f.visit(0, {0});
  REQUIRE(truncate(f.paths[0].c_str(), static_cast<long>(f.layout.block_bytes * 4)) == 0);
  std::vector<uint8_t> found(kExperts);
  try {
    const std::vector<uint16_t> needed{3, 5};
    LayerVisit visit(*f.store, 2, needed, found.data());
    while (visit.next()) {
    }
    FAIL("the read past the end was not noticed");
  } catch (const Error& error) {
    CHECK(error.code() == "io_error");
    CHECK(std::string(error.what()).find("the file ends there") != std::string::npos);
  }
  f.store->check_integrity();
  f.visit(0, {0, 1, 2});
}

TEST_CASE("expert store: stripes in each other's place, short or missing are refused by name") {
  Fixture f(2, 0, {}, 3);
  const StripeLayout striped({3, "test"}, f.layout.experts(), f.layout.block_bytes);
  const auto refusal = [&](const std::vector<std::string>& paths, const char* code) {
    return testing::error_of([&] { DiskTier(striped, paths); }, code);
  };
  testing::check_has(refusal({f.paths[0], f.paths[2], f.paths[1]}, "pack_invalid"),
                     {f.paths[2], "expected stripe 1 of 3 of test, found stripe 2 of 3 of test"});
  const StripeLayout other({3, "another pack"}, f.layout.experts(), f.layout.block_bytes);
  testing::check_has(testing::error_of([&] { DiskTier(other, f.paths); }, "pack_invalid"),
                     {f.paths[0], "of another pack, found stripe 0 of 3 of test"});
  REQUIRE(truncate(f.paths[1].c_str(), static_cast<long>(f.layout.block_bytes)) == 0);
  testing::check_has(refusal(f.paths, "pack_invalid"), {f.paths[1], "size"});
  REQUIRE(unlink(f.paths[1].c_str()) == 0);
  testing::check_has(refusal(f.paths, "io_error"), {f.paths[1], "cannot be opened"});
}

TEST_CASE("expert store: of neighbours read at once only the one that cannot be read fails") {
  Fixture f(8, 0, {1, 1 << 20});
  REQUIRE(truncate(f.paths[0].c_str(), static_cast<long>(f.layout.block_bytes * 4)) == 0);
  // One read of three blocks: all are known when the only reader begins.
  std::vector<uint8_t> found(kExperts);
  const std::vector<uint16_t> needed{2, 3, 4};
  {
    LayerVisit visit(*f.store, 0, needed, found.data());
    CHECK_THROWS_AS(
        [&] {
          while (visit.next()) {
          }
        }(),
        Error);
  }
  f.settle();
  CHECK(f.state(2) == ResidencyState::kResident);
  CHECK(f.state(3) == ResidencyState::kResident);
  CHECK(f.state(4) == ResidencyState::kAbsent);
  f.store->check_integrity();
}

TEST_CASE("expert store: what a layer misses is read at once where it stands side by side") {
  Fixture f(8, 0, {1, 1 << 20});
  f.visit(0, {0, 1, 2, 3, 5});
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.disk_reads == 2);
  CHECK(stats.disk_bytes == 5 * f.layout.block_bytes);
  CHECK(f.store->take_stats().disk_reads == 0);
}

TEST_CASE("expert store: a load that a plan names twice, or that is there, moves once") {
  Fixture f(8);
  f.visit(0, {3});
  f.start_pass({3, 1, 2, 1, 2, 1});
  f.visit(0, {1, 2, 3});
  CHECK(f.store->take_stats().bytes_moved == 3 * f.layout.block_bytes);
}

TEST_CASE("expert store: a visit that finds every expert allocates nothing") {
  Fixture f(6);
  f.visit(0, {0, 1, 2, 3, 4, 5});
  const std::vector<uint16_t> needed{0, 2, 3, 5};
  std::vector<uint8_t> found(kExperts);
  const auto use = [&] {
    LayerVisit visit(*f.store, 0, needed, found.data());
    for (auto expert = visit.next(); expert; expert = visit.next()) visit.another();
  };
  use();
  const size_t before = allocations();
  for (int round = 0; round < 10; ++round) use();
  CHECK(allocations() == before);
}

TEST_CASE("host tier: what the machine has no memory for is no room, and no error") {
  // No address space holds one block of this size.
  HostTier host(uint64_t{1} << 62, uint64_t{1} << 63);
  CHECK(host.reserve() == nullptr);
  CHECK(host.reserve() == nullptr);
}

/// Visits, prefetches and pins while the files shrink and grow again: each fails with a typed error or gives
/// the right bytes, and the store may close at any time.
void survives_faults(uint64_t host_blocks, ReadTuning reads, size_t stripes) {
  CAPTURE(host_blocks);
  CAPTURE(reads.piece_bytes);
  CAPTURE(stripes);
  std::mt19937 random(11);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const uint64_t block = make_expert_layout(kF32Format, 16, 32, 1, 1).block_bytes;
  size_t failed = 0, answered = 0;
  for (int round = 0; round < 12; ++round) {
    Fixture f(3 + below(6), host_blocks * block, reads, stripes);
    std::vector<std::string> whole;
    for (const std::string& path : f.paths) whole.push_back(read_text_file(path, 1 << 24));
    for (int step = 0; step < 40; ++step) {
      // A read that meets a change of its file half done may find anything.
      f.settle();
      const size_t file = below(f.paths.size());
      if (below(3) == 0) {
        std::filesystem::resize_file(f.paths[file], below(std::filesystem::file_size(f.paths[file]) + 1));
      } else {
        std::fstream(f.paths[file], std::ios::in | std::ios::out | std::ios::binary) << whole[file];
      }
      std::vector<ExpertId> loads(below(10));
      for (ExpertId& id : loads) id = static_cast<ExpertId>(below(18));
      f.start_pass(loads);
      std::vector<uint16_t> needed;
      for (uint16_t i = 0; i < kExperts; ++i) {
        if (below(2) == 0) needed.push_back(i);
      }
      try {
        if (below(8) == 0) {
          const std::vector<ExpertId> one{static_cast<ExpertId>(below(18))};
          f.store->pin(one, true);
          f.store->pin(one, false);
        }
        std::vector<uint8_t> found(kExperts);
        const size_t layer = below(kLayers);
        LayerVisit visit(*f.store, layer, needed, found.data());
        while (const auto expert = visit.next()) {
          const auto* words = reinterpret_cast<const uint32_t*>(expert->block);
          REQUIRE(words[0] == layer * kExperts + expert->index);
          REQUIRE(words[block / 4 - 1] == layer * kExperts + expert->index);
        }
        ++answered;
      } catch (const Error& error) {
        REQUIRE(error.code() == "io_error");
        ++failed;
      }
      f.store->check_integrity();
    }
    f.start_pass({0, 6, 12, 1, 7, 13, 2, 8, 14});
  }
  CHECK(failed > 0);
  CHECK(answered > 0);
}

TEST_CASE("expert store: files that shrink and come back, and a close in the middle, leave it whole") {
  survives_faults(0, {4, 4096}, 1);
  survives_faults(6, {2, 4096}, 3);
  survives_faults(6, {3, 1 << 20}, 1);
}

struct Setup {
  size_t host_blocks;
  ReadTuning reads;
  size_t stripes;
};

void keeps_invariants(const Setup& setup) {
  CAPTURE(setup.host_blocks);
  CAPTURE(setup.reads.depth);
  CAPTURE(setup.reads.piece_bytes);
  CAPTURE(setup.stripes);
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const uint64_t block = make_expert_layout(kF32Format, 16, 32, 1, 1).block_bytes;
  Fixture f(12, setup.host_blocks * block, setup.reads, setup.stripes);
  size_t slots = 12;
  std::vector<ExpertId> pinned;
  for (int step = 0; step < 600; ++step) {
    switch (below(6)) {
      case 0: {
        const size_t wanted = 1 + below(12);
        if (wanted > pinned.size()) f.store->resize(slots = wanted);
        break;
      }
      case 1: {
        if (pinned.empty() && slots > 2) {
          pinned = {static_cast<ExpertId>(below(18))};
          f.store->pin(pinned, true);
        } else {
          f.store->pin(pinned, false);
          pinned.clear();
        }
        break;
      }
      case 2: {
        std::vector<ExpertId> loads(below(8));
        for (ExpertId& id : loads) id = static_cast<ExpertId>(below(18));
        std::map<ExpertId, double> keys;
        for (ExpertId id = 0; id < 18; ++id) keys[id] = static_cast<double>(below(4));
        f.start_pass(loads, keys, {{static_cast<ExpertId>(below(18)), 9.0}}, static_cast<double>(below(5)));
        break;
      }
      default: {
        std::vector<uint16_t> needed;
        for (uint16_t i = 0; i < kExperts; ++i) {
          if (below(2) == 0) needed.push_back(i);
        }
        f.visit(below(kLayers), needed);
      }
    }
    f.store->check_integrity();
    for (const ExpertId id : pinned) {
      REQUIRE(f.store->snapshot().state[id] == static_cast<uint8_t>(ResidencyState::kResident));
    }
    REQUIRE(f.host->used() <= f.host->budget());
  }
}

TEST_CASE("expert store: any sequence of visits, prefetches, pins and sizes keeps the invariants") {
  for (const Setup& setup :
       {Setup{0, {}, 1}, Setup{0, {1, 4096}, 1}, Setup{0, {4, 4096}, 1}, Setup{0, {3, 1 << 20}, 1},
        Setup{5, {2, 4096}, 1}, Setup{0, {2, 8192}, 3}, Setup{7, {2, 4096}, 4}}) {
    keeps_invariants(setup);
  }
}

}  // namespace
}  // namespace sida
