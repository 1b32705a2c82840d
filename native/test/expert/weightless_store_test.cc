// The store without weights: decides as the store with weights does, and every load ends at once.
#include "expert/weightless_store.h"

#include "support/store_fixture.h"

namespace {

/// One reader: with more, chance decides which of a layer's experts arrives first, and so which slot is free next.
constexpr size_t kReaders = 1;
/// TransferEngine::prefetches_in_flight() of one reader.
constexpr size_t kInFlight = 2;

std::vector<ExpertId> random_ids(std::mt19937& random, size_t count, double share) {
  std::bernoulli_distribution chosen(share);
  std::vector<ExpertId> ids;
  for (ExpertId id = 0; id < count; ++id) {
    if (chosen(random)) ids.push_back(id);
  }
  return ids;
}

void check_same(const ResidencySnapshot& weightless, const ResidencySnapshot& with_weights) {
  const auto all = [](const ResidencySnapshot& s) {
    return std::tie(s.state, s.pinned, s.uses, s.loaded_at, s.turns, s.last_turn, s.use_rate, s.use_rate_needed,
                    s.use_rate_unneeded, s.slots, s.free_slots, s.visits);
  };
  CHECK((all(weightless) == all(with_weights)));
}

TEST_CASE("weightless store: loads and evicts what the store with weights does, visit by visit") {
  std::mt19937 random(1);
  for (size_t slots = 1; slots <= kLayers * kExperts; slots += 2) {
    StoreFixture f(slots, 0, {kReaders, 4096});
    WeightlessStore store(std::vector<size_t>(kLayers, kExperts), slots, kInFlight);
    uint64_t loads = 0;
    const auto count = [&](const WeightlessStore::Loads& more) { loads += more.demanded.size() + more.planned.size(); };
    for (int pass = 0; pass < 30; ++pass) {
      std::uniform_real_distribution<double> key(0, 20);
      std::vector<double> keys(kLayers * kExperts), keys_after(keys.size()), keys_unneeded(keys.size());
      for (double& value : keys) value = key(random);
      for (double& value : keys_after) value = key(random);
      for (double& value : keys_unneeded) value = key(random);
      // Every third pass has prefetches, and no visit: which of both comes first is a matter of time.
      const bool prefetches = pass % 3 == 2;
      const std::vector<ExpertId> planned = random_ids(random, keys.size(), prefetches ? 0.3 : 0);
      for (const ExpertId id : planned) keys[id] = -1;
      const ResidencyPlan plan{keys, keys_after, planned, prefetches ? 0.0 : 10.0, pass % 2 == 1, keys_unneeded};
      f.store->start_pass(plan);
      f.settle();
      count(store.start_pass(plan));
      check_same(store.snapshot(), f.store->snapshot());
      for (size_t layer = 0; layer < kLayers && !prefetches; ++layer) {
        std::vector<ExpertId> needed = random_ids(random, kExperts, 0.5);
        // A visit without needs does not tell the store without weights which layer it is of.
        if (needed.empty()) needed.push_back(0);
        f.visit(layer, {needed.begin(), needed.end()});
        std::vector<ExpertId> ids;
        for (const ExpertId index : needed) ids.push_back(static_cast<ExpertId>(layer * kExperts) + index);
        count(store.visit(ids));
        check_same(store.snapshot(), f.store->snapshot());
      }
      store.check_integrity();
    }
    CHECK(f.store->take_stats().bytes_moved == loads * f.layout.slot_bytes);
  }
}

TEST_CASE("weightless store: a call says what it loaded, demanded or planned") {
  WeightlessStore store(std::vector<size_t>{8}, 3, kInFlight);
  const std::vector<double> keys(8, 1.0);
  const std::vector<ExpertId> planned{6};
  const WeightlessStore::Loads& loads = store.start_pass({keys, keys, planned});
  CHECK(loads.planned == planned);
  CHECK(loads.demanded.empty());
  store.visit(std::vector<ExpertId>{1, 6});
  CHECK(loads.planned.empty());
  CHECK(loads.demanded == std::vector<ExpertId>{1});
  store.visit(std::vector<ExpertId>{2});
  // The least recently used would go for 7, were 1 not pinned with it.
  store.pin(std::vector<ExpertId>{7, 1}, true);
  CHECK(loads.planned == std::vector<ExpertId>{7});
  CHECK(store.snapshot().state[1] == static_cast<uint8_t>(ResidencyState::kResident));
}

}  // namespace
