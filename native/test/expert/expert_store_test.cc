// The expert store over a real file: residency, eviction, plans, pins, resizing.
#include "expert/expert_store.h"

#include "support/allocation_count.h"
#include "support/store_fixture.h"

namespace {

using Ids = std::vector<ExpertId>;

TEST_CASE("expert store: loads on demand, then finds the expert resident") {
  StoreFixture f(4);
  CHECK(f.visit(0, {1, 3})[1] == Found::kOnDemand);
  CHECK(f.visit(0, {1, 3})[3] == Found::kResident);
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.needed == 4);
  CHECK(stats.resident == 2);
  CHECK(stats.on_demand == 2);
  CHECK(stats.bytes_moved == 2 * f.layout.slot_bytes);
}

TEST_CASE("expert store: one slot serves a layer that needs every expert") {
  StoreFixture f(1);
  for (size_t layer = 0; layer < kLayers; ++layer) f.visit(layer, {0, 1, 2, 3, 4, 5});
  CHECK(f.store->take_stats().bytes_moved == 18 * f.layout.slot_bytes);
}

TEST_CASE("expert store: evicts the expert that the ranking names first") {
  StoreFixture f(2);
  f.visit(0, {0});
  f.visit(0, {1});
  f.visit(0, {0});  // 1 is now the least recently used
  f.visit(1, {2});
  CHECK(f.residents() == Ids{0, 8});
}

TEST_CASE("expert store: a prefetch makes the expert resident before it is needed, or late") {
  StoreFixture f(4);
  f.start_pass({0, 1, 2});
  const auto found = f.visit(0, {0, 1, 2, 5});
  for (const size_t i : {0, 1, 2}) CHECK((found[i] == Found::kPrefetched || found[i] == Found::kLate));
  CHECK(found[5] == Found::kOnDemand);
  CHECK(f.visit(0, {0})[0] == Found::kResident);
}

TEST_CASE("expert store: prefetches never take more slots than there are") {
  StoreFixture f(2);
  f.start_pass({0, 1, 2, 3, 4});
  f.visit(1, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("expert store: the largest key is evicted first, and a key counts only until its expert is used") {
  StoreFixture f(3);
  f.visit(0, {0, 1, 2});
  // 1 is needed last; 0 has a near key, but none after this pass.
  f.start_pass({}, {{0, 1}, {1, 9}, {2, 4}}, {{0, 99}, {1, 9}, {2, 4}});
  f.visit(1, {0});
  CHECK(f.residents() == Ids{0, 2, 6});
  f.visit(0, {0});
  f.visit(1, {1});
  CHECK(f.residents() == Ids{2, 6, 7});
}

TEST_CASE("expert store: a prefetch evicts only what is needed later than itself") {
  StoreFixture f(2);
  f.visit(0, {0, 1});
  f.start_pass({6, 7, 8}, {{0, 2}, {1, 9}, {6, 3}, {7, 4}, {8, 5}}, {{0, 8}});
  // 7 would have to evict 0 or 6, both nearer; with 0 used and not needed before 8 it may.
  CHECK(f.residents() == Ids{0, 6});
  CHECK(f.visit(0, {0})[0] == Found::kResident);
  CHECK(f.residents() == Ids{6, 7});
  CHECK(f.visit(1, {0, 1})[1] == Found::kPrefetched);
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.prefetches_wasted == 0);
  CHECK(stats.bytes_moved >= 4 * f.layout.slot_bytes);
}

TEST_CASE("expert store: a prefetch evicts only expendable experts, and an expert it brings back is not expendable") {
  StoreFixture f(2);
  f.visit(0, {0, 1});
  // 6 takes the slot of 0, which is needed again at 3; 1 may go once it has been used.
  f.start_pass({6, 0, 7}, {{0, 103}, {1, 9}, {6, 1}, {7, 5}}, {{1, 150}}, 100);
  CHECK(f.residents() == Ids{1, 6});
  f.visit(0, {1});
  CHECK(f.residents() == Ids{0, 6});
  CHECK(f.store->take_stats().prefetches_wasted == 0);
}

TEST_CASE("expert store: a planned load of an expert that was resident and evicted is late") {
  StoreFixture f(1);
  f.visit(0, {0});
  f.start_pass({6, 0}, {{0, 103}, {6, 1}}, {}, 100);
  CHECK(f.residents() == Ids{6});
  CHECK(f.visit(0, {0})[0] == Found::kLate);
}

TEST_CASE("expert store: a layer with enough resident experts waits for a better victim among its own") {
  const auto resident_after = [](std::vector<uint16_t> needed, double expendable) {
    StoreFixture f(4, 0, {2, 4096});
    f.visit(0, {0, 1, 2});
    f.visit(1, {0});
    f.start_pass({}, {{1, 0}, {2, 0}, {6, 1}}, {{0, 150}}, expendable);
    f.visit(0, std::move(needed));
    return f.state(6) == ResidencyState::kResident;
  };
  CHECK(resident_after({0, 1, 2, 3}, 100));
  // Without keys no expert is preferred as a victim.
  CHECK_FALSE(resident_after({0, 1, 2, 3}, 0));
  // Too few resident experts to wait.
  CHECK_FALSE(resident_after({0, 3}, 100));
}

TEST_CASE("expert store: a prefetch evicted before its use is wasted; a planned load not begun is late") {
  StoreFixture f(1);
  f.start_pass({0}, {{0, 0}});
  f.settle();
  f.start_pass({6}, {{0, 9}, {6, 1}});
  CHECK(f.residents() == Ids{6});
  CHECK(f.store->take_stats().prefetches_wasted == 1);
  f.start_pass({7}, {{6, 1}, {7, 2}});
  CHECK(f.visit(1, {1})[1] == Found::kLate);
  CHECK(f.visit(1, {2})[2] == Found::kOnDemand);
}

TEST_CASE("expert store: prefetches the next plan does not want are cancelled while they wait") {
  StoreFixture f(12);
  f.start_pass({0, 1, 2, 3, 4, 5, 6, 7});
  f.start_pass({17});
  const Ids residents = f.residents();
  const StoreStats stats = f.store->take_stats();
  CHECK(residents.back() == 17);
  CHECK(residents.size() == stats.prefetches_begun - stats.prefetches_cancelled);
  CHECK(stats.bytes_moved == residents.size() * f.layout.slot_bytes);
}

TEST_CASE("expert store: a plan of another layout is refused") {
  StoreFixture f(3);
  const std::vector<double> keys(18, 5.0);
  CHECK_THROWS_AS(f.store->start_pass({keys, std::span(keys).first(3), {}}), Error);
  const std::vector<ExpertId> unknown{18};
  CHECK_THROWS_AS(f.store->start_pass({keys, keys, unknown}), Error);
}

TEST_CASE("expert store: a pinned expert stays; one slot must remain unpinned") {
  StoreFixture f(3);
  const std::vector<ExpertId> two{0, 7};
  f.store->pin(two, true);
  for (size_t layer = 0; layer < kLayers; ++layer) f.visit(layer, {0, 1, 2, 3, 4, 5});
  for (const ExpertId id : two) CHECK(f.state(id) == ResidencyState::kResident);
  const std::vector<ExpertId> third{9};
  CHECK_THROWS_AS(f.store->pin(third, true), Error);
  CHECK_THROWS_AS(f.store->resize(2), Error);
  f.store->check_integrity();
  f.store->pin(two, false);
  f.store->resize(1);
  f.visit(2, {0, 5});
}

TEST_CASE("expert store: shrinking returns memory, growing takes it within the budget") {
  StoreFixture f(6);
  f.visit(0, {0, 1, 2, 3, 4, 5});
  f.store->resize(2);
  CHECK(f.memory.used() == 2 * f.layout.slot_bytes);
  f.store->check_integrity();
  f.store->resize(6);
  CHECK(f.memory.used() == 6 * f.layout.slot_bytes);
  CHECK_THROWS_AS(f.store->resize(7), Error);
  f.visit(1, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("expert store: the host tier serves blocks read before and evicts the least recently used") {
  StoreFixture f(1, small_layout(1, 1).slot_bytes * 8);
  for (int round = 0; round < 3; ++round) f.visit(0, {0, 1, 2, 3, 4, 5});
  CHECK(f.host->experts() == 6);
  f.visit(1, {0, 1, 2, 3, 4, 5});
  CHECK(f.host->experts() == 8);
  CHECK(f.host->used() <= f.host->budget());
}

TEST_CASE("expert store: missing experts that are neighbours in the file are read at once") {
  StoreFixture f(8, 0, {1, 1 << 20});
  f.visit(0, {0, 1, 2, 3, 5});
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.disk_reads == 2);
  CHECK(stats.disk_bytes == 5 * f.layout.slot_bytes);
  CHECK(f.store->take_stats().disk_reads == 0);
}

TEST_CASE("expert store: a load that a plan names twice, or that is resident, moves once") {
  StoreFixture f(8);
  f.visit(0, {3});
  f.start_pass({3, 1, 2, 1, 2, 1});
  f.visit(0, {1, 2, 3});
  CHECK(f.store->take_stats().bytes_moved == 3 * f.layout.slot_bytes);
}

TEST_CASE("expert store: likely foreseen experts are prefetched in the place of others, unlikely ones are not") {
  StoreFixture f(3);
  f.visit(0, {0, 1, 2});
  f.start_pass({});
  std::vector<ForeseenNeed> needs{{6, 1, 0.9}, {7, 1, 0.3}, {0, 2, 0.9}};
  f.store->foresee(needs);
  CHECK((needs[0].absent && needs[1].absent && !needs[2].absent));
  // 0 is the least recently used, but foreseen.
  CHECK(f.residents() == Ids{0, 2, 6});
  CHECK(f.visit(1, {0})[0] == Found::kPrefetched);
  const StoreStats stats = f.store->take_stats();
  CHECK(stats.prefetches_foreseen == 1);
  CHECK(stats.prefetches_begun == 1);
}

TEST_CASE("expert store: a foreseen need evicts nothing that is needed sooner, and ends with the pass") {
  StoreFixture f(2);
  f.visit(0, {0, 1});
  f.start_pass({}, {{0, 1}, {1, 2}});
  std::vector<ForeseenNeed> needs{{6, 3, 0.9}};
  f.store->foresee(needs);
  CHECK(f.residents() == Ids{0, 1});
  needs = {{0, 1, 0.9}};
  f.store->foresee(needs);
  f.start_pass({});
  f.visit(1, {2});
  CHECK(f.state(0) == ResidencyState::kAbsent);
}

TEST_CASE("expert store: what was wrongly foreseen goes first once its layer runs, and is no longer loaded") {
  StoreFixture f(3);
  f.visit(0, {0, 1, 2});
  // Of the resident experts, 0 would be the first victim; 6 is brought in its place.
  f.start_pass({}, {{0, 150}, {1, 40}, {2, 40}, {6, 8}, {7, 9}, {8, 9}}, {}, 100);
  std::vector<ForeseenNeed> needs{{6, 1, 0.9}, {7, 1, 0.8}};
  f.store->foresee(needs);
  CHECK(f.residents() == Ids{1, 2, 6});
  // Layer 1 needs another expert, for which 6 goes, and 7 is not loaded any more.
  f.visit(1, {2});
  CHECK(f.residents() == Ids{1, 2, 8});
}

TEST_CASE("expert store: a foreseen need waits while the running layer waits for loads") {
  StoreFixture f(4, 0, {1, 4096});
  f.start_pass({});
  std::vector<uint8_t> found(kExperts);
  const std::vector<uint16_t> needed{0, 1, 2};
  LayerVisit visit(*f.store, 0, needed, found.data());
  std::vector<ForeseenNeed> needs{{6, 1, 1}};
  f.store->foresee(needs);
  bool waited = true;
  while (visit.next()) {
    const auto state = f.store->snapshot().state;
    const auto loads = [&](size_t id) { return state[id] == static_cast<uint8_t>(ResidencyState::kLoading); };
    // The last demand may end between the two looks, after which the prefetch begins.
    if (loads(6)) waited = waited && !(loads(0) || loads(1) || loads(2));
  }
  f.settle();
  CHECK(waited);
  CHECK(f.state(6) == ResidencyState::kResident);
}

TEST_CASE("expert store: a visit that finds every expert allocates nothing") {
  StoreFixture f(6);
  f.visit(0, {0, 1, 2, 3, 4, 5});
  const std::vector<uint16_t> needed{0, 2, 3, 5};
  std::vector<uint8_t> found(kExperts);
  const auto use = [&] {
    LayerVisit visit(*f.store, 0, needed, found.data());
    for (auto expert = visit.next(); expert; expert = visit.next()) visit.next_ready();
  };
  use();
  const size_t before = allocations();
  for (int round = 0; round < 10; ++round) use();
  CHECK(allocations() == before);
}

}  // namespace
