#include "expert/rehearsal.h"

#include <algorithm>
#include <cmath>

namespace sida {
namespace {

/// From this chance on a resident expert counts as used by the visit.
constexpr double kLikely = 0.5;

}  // namespace

void Rehearsal::run(const Input& input, const ResidencyTable& experts) {
  experts_.resize(experts.experts());
  for (size_t id = 0; id < experts_.size(); ++id) {
    const ExpertRecord& record = experts.record(static_cast<ExpertId>(id));
    const bool present = record.state != ResidencyState::kAbsent;
    experts_[id] = {.next_use = input.next_use[id],
                    .rank = 0,
                    .used_at = kUnused,
                    .held = present && !record.pinned,
                    .pinned = present && record.pinned,
                    .listed = false,
                    .used_by_pass = false,
                    .goes_now = false,
                    .goes_after_use = false};
  }
  loads_.clear();
  heap_.clear();
  heap_filled_ = false;
  free_slots_ = experts.free_slots().size();
  size_t entry = 0;
  for (size_t time = 0; time < input.visits.size(); ++time) {
    visit(input, experts, time, entry);
    entry += input.visits[time].ids.size();
  }
  // The expert may already have been used by the pass.
  for (Expert& expert : experts_) expert.goes_after_use |= expert.goes_now && !expert.used_by_pass;
}

void Rehearsal::visit(const Input& input, const ResidencyTable& experts, size_t time, size_t first_entry) {
  const PlannedVisit& visit = input.visits[time];
  const double least = least_chance(input.link, kNoVictim);
  // Resident experts compute first, and each may be evicted once it has computed.
  for (size_t entry = 0; entry < visit.ids.size(); ++entry) {
    const ExpertId id = visit.ids[entry];
    Expert& expert = experts_[id];
    const bool likely = visit.chances[entry] >= kLikely;
    if (likely && time < input.pass_visits) expert.used_by_pass = true;
    expert.next_use = input.after_visit[first_entry + entry];
    if (!expert.held && !expert.pinned) continue;
    if (likely) expert.used_at = static_cast<int32_t>(time);
    const bool loading = experts.record(id).state == ResidencyState::kLoading;
    if (loading && visit.chances[entry] >= least) list(id);
    rank_again(input, id);
  }
  for (size_t entry = 0; entry < visit.ids.size(); ++entry) {
    const ExpertId id = visit.ids[entry];
    const double chance = visit.chances[entry];
    Expert& expert = experts_[id];
    if (chance < least || expert.held || expert.pinned || !make_room(input, time, chance)) continue;
    expert.used_at = static_cast<int32_t>(time);
    expert.held = true;
    rank_again(input, id);
    list(id);
  }
}

bool Rehearsal::make_room(const Input& input, size_t time, double chance) {
  if (free_slots_ > 0) {
    --free_slots_;
    return true;
  }
  Expert* victim = next_victim(input);
  if (victim == nullptr) return chance >= kLikely;
  if (chance < least_chance(input.link, victim->next_use - static_cast<double>(time))) return false;
  victim->held = false;
  if (victim->used_at == kUnused) {
    victim->goes_now = true;
  } else if (victim->used_at < static_cast<int32_t>(input.pass_visits)) {
    victim->goes_after_use = true;
  }
  return true;
}

void Rehearsal::list(ExpertId id) {
  if (experts_[id].listed) return;
  experts_[id].listed = true;
  loads_.push_back(id);
}

/// The expert with the largest rank is evicted first: the one that is needed last. Experts needed in the same round of
/// a later batch cost the same to reload. Among them, the one that has been evictable for longest goes first, so that
/// a prefetch need not wait.
double Rehearsal::rank(const Input& input, const Expert& expert) const {
  const auto batch = static_cast<double>(input.batch_visits);
  const double next = expert.next_use;
  if (next < batch) return next;
  const auto layers = static_cast<double>(input.layers);
  const auto visits = static_cast<double>(input.visits.size());
  const double round = std::floor((next - batch) / layers);
  // Below 1, so that it orders experts only within a round.
  const double free = (visits - expert.used_at + next / (next + 1)) / (visits + 2);
  return batch + layers * (round + free);
}

void Rehearsal::rank_again(const Input& input, ExpertId id) {
  Expert& expert = experts_[id];
  if (!heap_filled_ || !expert.held) return;
  expert.rank = rank(input, expert);
  heap_.push_back({expert.rank, id});
  std::push_heap(heap_.begin(), heap_.end());
}

Rehearsal::Expert* Rehearsal::next_victim(const Input& input) {
  if (!heap_filled_) {
    heap_filled_ = true;
    for (size_t id = 0; id < experts_.size(); ++id) {
      if (!experts_[id].held) continue;
      experts_[id].rank = rank(input, experts_[id]);
      heap_.push_back({experts_[id].rank, static_cast<ExpertId>(id)});
    }
    std::make_heap(heap_.begin(), heap_.end());
  }
  while (!heap_.empty()) {
    const Ranked first = heap_.front();
    Expert& expert = experts_[first.id];
    if (expert.held && expert.rank == first.rank) return &expert;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
  return nullptr;
}

}  // namespace sida
