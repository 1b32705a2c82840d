#include "expert/pass_planner.h"

#include <algorithm>

#include "core/profile.h"

namespace sida {
namespace {

/// Keys of evictable experts start here, above every time in a plan.
constexpr double kExpendable = 1ull << 40;

}  // namespace

void PassPlanner::add(const std::vector<TableNeeds>& tables) {
  for (const TableNeeds& table : tables) {
    auto known = tables_.find(table.id);
    if (known == tables_.end()) {
      known = tables_.emplace(table.id, Read{.planned = calibration_.corrected(table), .plan = 0}).first;
    }
    Read& read = known->second;
    read.plan = plans_;
    for (size_t layer = 0; layer < read.planned.layers(); ++layer) visits_.push_back(read.planned.visit(layer));
  }
}

void PassPlanner::read(const PassNeeds& needs) {
  ++plans_;
  visits_.clear();
  if (!needs.control) add(needs.own);
  pass_visits_ = visits_.size();
  if (!needs.control) add(needs.behind);
  batch_visits_ = prefetch_visits_ = visits_.size();
  for (const std::vector<TableNeeds>& batch : needs.upcoming) {
    add(batch);
    if (&batch == &needs.upcoming.front()) prefetch_visits_ = visits_.size();
  }
  // Later passes of the batch may read what a control pass does without.
  for (const auto* tables : {&needs.own, &needs.behind}) {
    for (const TableNeeds& table : *tables) {
      if (const auto known = tables_.find(table.id); known != tables_.end()) known->second.plan = plans_;
    }
  }
  std::erase_if(tables_, [&](const auto& table) { return table.second.plan != plans_; });
  std::vector<ExpertId> layers(visits_.size());
  std::ranges::transform(visits_, layers.begin(), &PlannedVisit::first);
  std::ranges::sort(layers);
  layers_ = static_cast<size_t>(std::ranges::unique(layers).begin() - layers.begin());
}

ResidencyPlan PassPlanner::plan(const PassNeeds& needs, const ResidencyTable& experts) {
  const ProfileScope scope(ProfileOp::kPlan);
  ranks_.resize(experts.experts());
  const bool ahead = rule_ == EvictionRule::kFarthestNextUse && !visits_.empty();
  ResidencyPlan plan = ahead ? plan_ahead(needs, experts) : plan_this_pass(needs, experts);
  plan.keys = ranks_.before;
  plan.keys_after = ranks_.after;
  plan.keys_unneeded = ranks_.unneeded;
  plan.loads = loads_;
  // The store chooses their victims, which may be needed soon.
  plan.least_foreseen = least_chance(needs.link, 0);
  return plan;
}

ResidencyPlan PassPlanner::plan_ahead(const PassNeeds& needs, const ResidencyTable& experts) {
  rank_by_next_use(experts, shape_, visits_.size(), std::span(visits_).first(pass_visits_), ranks_);
  expect_use();
  rehearsal_.run({.visits = std::span(visits_).first(prefetch_visits_),
                  .after_visit = after_visit_,
                  .next_use = ranks_.before,
                  .pass_visits = pass_visits_,
                  .batch_visits = batch_visits_,
                  .layers = layers_,
                  .link = needs.link},
                 experts);
  for (const ExpertId id : rehearsal_.gone()) {
    if (rehearsal_.goes_now(id)) {
      ranks_.before[id] += kExpendable;
      ranks_.unneeded[id] += kExpendable;
    }
    if (rehearsal_.goes_after_use(id)) ranks_.after[id] += kExpendable;
  }
  loads_ = rehearsal_.loads();
  return {.expendable = kExpendable};
}

/// Turns the rule's ranks into expected next uses: from now on (`before`), and after the pass of experts that it used
/// (`after`) or did not (`unneeded`).
void PassPlanner::expect_use() {
  size_t entries = 0;
  for (const PlannedVisit& visit : std::span(visits_).first(prefetch_visits_)) entries += visit.ids.size();
  after_visit_.resize(entries);
  for (size_t at = visits_.size(); at-- > 0;) {
    const auto& [first, experts, ids, chances] = visits_[at];
    const auto time = static_cast<double>(at);
    const bool kept = at < prefetch_visits_;
    if (kept) entries -= ids.size();
    for (size_t entry = 0; entry < ids.size(); ++entry) {
      const ExpertId id = ids[entry];
      const double chance = chances[entry];
      if (kept) after_visit_[entries + entry] = ranks_.before[id];
      const auto nearer = [&](double& use) { use = chance * time + (1 - chance) * use; };
      nearer(ranks_.before[id]);
      if (at < pass_visits_) continue;
      nearer(ranks_.after[id]);
      nearer(ranks_.unneeded[id]);
    }
  }
}

ResidencyPlan PassPlanner::plan_this_pass(const PassNeeds& needs, const ResidencyTable& experts) {
  const bool ranked_by_use = rule_ == EvictionRule::kFarthestNextUse;
  if (ranked_by_use) {
    rank_by_next_use(experts, shape_, 0, {}, ranks_);
  } else {
    rank_by_past(experts, rule_, ranks_);
  }
  for (auto* keys : {&ranks_.before, &ranks_.after, &ranks_.unneeded}) {
    for (double& key : *keys) key += kExpendable;
  }
  loads_.clear();
  const double least = least_chance(needs.link, kNoVictim);
  for (size_t at = 0; at < pass_visits_; ++at) {
    const PlannedVisit& visit = visits_[at];
    for (size_t entry = 0; entry < visit.ids.size(); ++entry) {
      if (visit.chances[entry] < least) continue;
      const ExpertId id = visit.ids[entry];
      ranks_.before[id] = std::min(ranks_.before[id], static_cast<double>(at));
      if (experts.record(id).state != ResidencyState::kResident) loads_.push_back(id);
    }
  }
  return {.newest_first = rule_ == EvictionRule::kExpertBuffering, .patient = ranked_by_use};
}

void PassPlanner::learn(const PassNeeds& needs, std::span<const uint8_t> found) {
  for (const TableNeeds& table : needs.own) {
    calibration_.learn(table, found.first(table.need.size()));
    found = found.subspan(table.need.size());
  }
}

}  // namespace sida
