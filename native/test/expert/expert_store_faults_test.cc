// The expert store under any sequence of calls, and where files and memory fail: errors are typed, invariants hold.
#include <unistd.h>

#include "expert/expert_store.h"
#include "support/store_fixture.h"

namespace {

TEST_CASE("expert store: a file that shrinks under it is a typed error and leaves no leases behind") {
  StoreFixture f(2);
  f.visit(0, {0});
  REQUIRE(truncate(f.path.c_str(), static_cast<long>(f.layout.slot_bytes * 4)) == 0);
  check_error([&] { f.visit(2, {3, 5}); }, {"the file ends there"}, "io_error");
  f.store->check_integrity();
  f.visit(0, {0, 1, 2});
}

TEST_CASE("expert store: of neighbours read at once, only the unreadable one fails") {
  StoreFixture f(8, 0, {1, 1 << 20});
  REQUIRE(truncate(f.path.c_str(), static_cast<long>(f.layout.slot_bytes * 4)) == 0);
  // One read of three blocks: all are known when the only reader begins.
  std::vector<uint8_t> found(kExperts);
  const std::vector<uint16_t> needed{2, 3, 4};
  error_of(
      [&] {
        LayerVisit visit(*f.store, 0, needed, found.data());
        while (visit.next()) continue;
      },
      "io_error");
  CHECK(f.residents() == std::vector<ExpertId>{2, 3});
  f.store->check_integrity();
}

TEST_CASE("host tier: a block that the machine has no memory for is not kept, without an error") {
  // No address space holds one block of this size.
  HostTier host(uint64_t{1} << 62, uint64_t{1} << 63);
  CHECK(host.reserve() == nullptr);
  CHECK(host.reserve() == nullptr);
}

/// Visits, prefetches and pins while the files shrink and grow again: each fails with a typed error or gives
/// the right bytes, and the store may close at any time.
void survives_faults(uint64_t host_blocks, ReadTuning reads) {
  CASE(host_blocks, reads.chunk_bytes);
  std::mt19937 random(11);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const uint64_t block = small_layout(1, 1).slot_bytes;
  size_t failed = 0, answered = 0;
  for (int round = 0; round < 12; ++round) {
    StoreFixture f(3 + below(6), host_blocks * block, reads);
    const std::string whole = read_text_file(f.path);
    for (int step = 0; step < 40; ++step) {
      // A read during a change of its file may return any bytes.
      f.settle();
      if (below(3) == 0) {
        std::filesystem::resize_file(f.path, below(std::filesystem::file_size(f.path) + 1));
      } else {
        std::fstream(f.path, std::ios::in | std::ios::out | std::ios::binary) << whole;
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

TEST_CASE("expert store: files that shrink and grow again, and a close during loads, keep the invariants") {
  survives_faults(0, {4, 4096});
  survives_faults(6, {2, 4096});
  survives_faults(6, {3, 1 << 20});
}

void keeps_invariants(size_t host_blocks, ReadTuning reads) {
  CASE(host_blocks, reads.depth, reads.chunk_bytes);
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const uint64_t block = small_layout(1, 1).slot_bytes;
  StoreFixture f(12, host_blocks * block, reads);
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
    for (const ExpertId id : pinned) REQUIRE(f.state(id) == ResidencyState::kResident);
    REQUIRE(f.host->used() <= f.host->budget());
  }
}

TEST_CASE("expert store: any sequence of visits, prefetches, pins and sizes keeps the invariants") {
  for (const ReadTuning& reads : {ReadTuning{}, {1, 4096}, {4, 4096}, {3, 1 << 20}}) keeps_invariants(0, reads);
  keeps_invariants(5, {2, 4096});
}

}  // namespace
