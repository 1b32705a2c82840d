// The expert store under any sequence of visits, prefetches, pins and sizes.
#include "expert/expert_store.h"
#include "support/store_fixture.h"
#include "support/test.h"

namespace {

struct Setup {
  size_t host_blocks;
  ReadTuning reads;
  size_t stripes;
};

void keeps_invariants(const Setup& setup) {
  CASE(setup.host_blocks, setup.reads.depth, setup.reads.chunk_bytes, setup.stripes);
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const uint64_t block = small_layout(1, 1).slot_bytes;
  StoreFixture f(12, setup.host_blocks * block, setup.reads, setup.stripes);
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
  for (const Setup& setup : {Setup{0, {}, 1}, Setup{0, {1, 4096}, 1}, Setup{0, {4, 4096}, 1}, Setup{0, {3, 1 << 20}, 1},
                             Setup{5, {2, 4096}, 1}, Setup{0, {2, 8192}, 3}, Setup{7, {2, 4096}, 4}}) {
    keeps_invariants(setup);
  }
}

}  // namespace
