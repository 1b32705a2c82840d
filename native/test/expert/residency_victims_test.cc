// Which expert is evicted next, beside a search of all experts by the rule.
#include "expert/residency_table.h"
#include "support/test.h"

namespace {

constexpr size_t kTableLayers = 3;
constexpr size_t kLayerExperts = 6;
constexpr size_t kAllExperts = kTableLayers * kLayerExperts;

/// A table whose every eviction is compared with a search.
class Searched {
 public:
  explicit Searched(size_t slots) : table_(kAllExperts) {
    for (uint32_t slot = 0; slot < slots; ++slot) table_.add_slot(slot);
  }

  /// Of times [before its layer, after it was needed, after it was not].
  using Keys = std::array<std::vector<double>, 3>;

  void start_pass(Keys keys, const std::vector<ExpertId>& loads, bool newest_first) {
    keys_ = std::move(keys);
    newest_first_ = newest_first;
    foreseen_.clear();
    table_.start_pass({keys_[0], keys_[1], loads, kExpendable, newest_first, keys_[2]});
    prefetch();
  }

  void foresee(std::vector<ForeseenNeed> needs) {
    table_.foresee(needs);
    foreseen_.clear();
    for (const ForeseenNeed& need : needs) {
      if (need.chance >= kLeastForeseenChance) foreseen_[need.id] = need.time;
    }
    prefetch();
  }

  void enough(size_t loads) { enough_ = loads; }

  void visit(size_t layer, const std::vector<ExpertId>& ids) {
    table_.begin_visit();
    for (const ExpertId id : ids) table_.need(id);
    const auto first = static_cast<ExpertId>(layer * kLayerExperts);
    const auto end = static_cast<ExpertId>(first + kLayerExperts);
    std::vector<ExpertId> wrong;
    for (ExpertId id = first; id < end; ++id) {
      if (table_.record(id).foreseen && !table_.record(id).used) wrong.push_back(id);
    }
    table_.layer_runs(first, end);
    for (const ExpertId id : wrong) {
      if (keys_[2][id] < kExpendable) keys_[2][id] += kExpendable;
    }
    std::erase_if(foreseen_, [&](const auto& need) { return need.first >= first && need.first < end; });
    do {
      table_.release_held();
      while (move([&] { return table_.next_demand(enough_); })) {
      }
    } while (table_.hand_out());
    CHECK(table_.missing() == 0);
    table_.end_visit();
  }

  void pin(ExpertId id, bool pinned) {
    if (!pinned) return table_.unpin({&id, 1});
    if (table_.record(id).state == ResidencyState::kResident) table_.pin({&id, 1});
  }

  size_t evictions() const { return evictions_; }

 private:
  static constexpr double kExpendable = 10;

  void prefetch() {
    while (move([&] { return table_.next_prefetch(1); })) {
    }
  }

  double key(ExpertId id) const {
    const ExpertRecord& record = table_.record(id);
    if (record.used) return keys_[1][id];
    const double own = keys_[record.unneeded ? 2 : 0][id];
    const auto foreseen = foreseen_.find(id);
    return foreseen == foreseen_.end() ? own : std::min(own, foreseen->second);
  }

  std::optional<ExpertId> victim() const {
    std::optional<ExpertId> best;
    for (ExpertId id = 0; id < kAllExperts; ++id) {
      const ExpertRecord& record = table_.record(id);
      if (!record.evictable()) continue;
      if (best) {
        const bool newer = record.last_use > table_.record(*best).last_use;
        if (key(id) < key(*best) || (key(id) == key(*best) && newer != newest_first_)) continue;
      }
      best = id;
    }
    return best;
  }

  /// Whether there was a load. An expert that is brought back gets a smaller key.
  template <typename Next>
  bool move(Next next) {
    const bool full = table_.free_slots().empty();
    const auto expected = victim();
    const auto load = next();
    if (!load) return false;
    if (full) {
      REQUIRE(expected);
      CHECK(table_.record(*expected).state == ResidencyState::kAbsent);
      ++evictions_;
    }
    for (const size_t when : {0, 2}) {
      double& own = keys_[when][load->id];
      if (own >= kExpendable && table_.record(load->id).prefetched) own -= kExpendable;
    }
    table_.finish_load(load->id, true);
    return true;
  }

  ResidencyTable table_;
  Keys keys_;
  size_t enough_ = kAllExperts;
  std::map<ExpertId, double> foreseen_;
  bool newest_first_ = false;
  size_t evictions_ = 0;
};

TEST_CASE("a busy link loads no unlikely expert, and keeps one that is there") {
  ResidencyTable table(kAllExperts);
  for (uint32_t slot = 0; slot < 2; ++slot) table.add_slot(slot);
  std::vector<ForeseenNeed> needs{{0, 1, 0.9}, {1, 1, 0.7}};
  table.foresee(needs, 0.8);
  const auto load = table.next_prefetch(2);
  REQUIRE(load);
  CHECK(load->id == 0);
  CHECK(!table.next_prefetch(2));
  CHECK(needs[1].absent);
}

TEST_CASE(
    "an expert that a peer holds is evicted first, not prefetched, and comes back when the peer does not answer") {
  ResidencyTable table(kAllExperts);
  for (uint32_t slot = 0; slot < 2; ++slot) table.add_slot(slot);
  for (const ExpertId id : {0u, 1u}) {
    table.demand(id);
    table.finish_load(id, true);
    table.release(id);
  }
  std::vector<double> keys(kAllExperts, 9);
  keys[0] = 5;
  keys[1] = 3;
  const std::vector<ExpertId> loads{2, 3};
  std::vector<uint8_t> held(kAllExperts, 0);
  held[1] = held[2] = 1;
  table.set_elsewhere(held);
  table.start_pass({keys, keys, loads});
  const auto load = table.next_prefetch(2);
  REQUIRE(load);
  CHECK(load->id == 3);
  CHECK(table.record(1).state == ResidencyState::kAbsent);
  CHECK(!table.next_prefetch(2));
  table.finish_load(3, true);
  table.begin_visit();
  table.need_elsewhere(2, Found::kPeer);
  table.need(3);
  table.layer_runs(0, kLayerExperts);
  CHECK(table.hand_out() == ExpertId{3});
  CHECK(!table.hand_out());
  CHECK(table.bring_back(2) == Found::kLate);
  table.release_held();
  REQUIRE(table.next_demand(1));
  table.finish_load(2, true);
  CHECK(table.hand_out() == ExpertId{2});
  table.end_visit();
  const ResidencyStats stats = table.take_stats();
  CHECK(stats.needed == 2);
  CHECK(stats.peer == 0);
  table.check_integrity();
}

TEST_CASE("a plan says how likely a foreseen need must be") {
  ResidencyTable table(kAllExperts);
  for (uint32_t slot = 0; slot < 2; ++slot) table.add_slot(slot);
  ResidencyPlan plan;
  plan.least_foreseen = 0.8;
  table.start_pass(plan);
  std::vector<ForeseenNeed> needs{{0, 1, 0.9}, {1, 1, 0.7}};
  table.foresee(needs, 0);
  const auto load = table.next_prefetch(2);
  REQUIRE(load);
  CHECK(load->id == 0);
  CHECK(!table.next_prefetch(2));
}

TEST_CASE("residency table: evicts what a search of all experts finds") {
  std::mt19937 random(3);
  size_t evictions = 0;
  for (const size_t slots : {1, 2, 5, 9, 17}) {
    Searched table(slots);
    // Few different keys, so that recency decides often.
    std::uniform_int_distribution<int> key(0, 5), expert(0, kAllExperts - 1);
    for (int pass = 0; pass < 60; ++pass) {
      Searched::Keys keys;
      for (auto& values : keys) {
        for (ExpertId id = 0; id < kAllExperts; ++id) values.push_back(4.0 * key(random));
      }
      std::vector<ExpertId> loads;
      for (ExpertId id = 0; id < kAllExperts; ++id) {
        if (pass % 3 == 1 && key(random) == 0) loads.push_back(id);
      }
      table.start_pass(keys, loads, pass % 2 == 1);
      if (slots > 2) table.pin(static_cast<ExpertId>(expert(random)), key(random) == 0);
      table.enough(pass % 4 == 3 ? 1 : kAllExperts);
      // Many visits of a pass leave more outdated entries than the queue has room for.
      for (size_t visit = 0; visit < (pass % 5 == 4 ? 10 : 1) * kTableLayers; ++visit) {
        const size_t layer = visit % kTableLayers;
        std::vector<ExpertId> ids;
        for (ExpertId id = 0; id < kLayerExperts; ++id) {
          if (key(random) < 2) ids.push_back(static_cast<ExpertId>(layer * kLayerExperts) + id);
        }
        table.visit(layer, ids);
        if (pass % 3 == 2) {
          const auto next = static_cast<ExpertId>((layer + 1) % kTableLayers * kLayerExperts);
          table.foresee({{next, 0.5, 0.9}, {next + 2, 0.5, 0.1}, {next + 4, 1.5, 0.6}});
        }
      }
    }
    evictions += table.evictions();
  }
  CHECK(evictions > 500);
}

TEST_CASE("residency table: refuses a plan with a key that is no number") {
  ResidencyTable table(2);
  table.add_slot(0);
  const std::vector<double> keys{0, std::nan("")}, after{0, 0};
  CHECK_THROWS_AS(table.start_pass({keys, after, {}}), Error);
  CHECK_THROWS_AS(table.start_pass({after, keys, {}}), Error);
  CHECK_THROWS_AS(table.start_pass({after, after, {}, 0, false, keys}), Error);
  CHECK_THROWS_AS(table.start_pass({after, after, {}, std::numeric_limits<double>::infinity()}), Error);
  const std::vector<double> one{0};
  CHECK_THROWS_AS(table.start_pass({after, after, {}, 0, false, one}), Error);
}

}  // namespace
