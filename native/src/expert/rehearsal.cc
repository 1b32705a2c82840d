#include "expert/rehearsal.h"

#include <algorithm>
#include <limits>

namespace sida {
namespace {

/// From this chance on a resident expert counts as used by the visit.
constexpr double kLikely = 0.5;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double Rehearsal::Rounds::of(double time) const {
  // Truncated: std::floor is a call without SSE4.1.
  return batch + layers * static_cast<double>(static_cast<int64_t>(std::max(0.0, time - batch) / layers));
}

void Rehearsal::run(const Input& input, const ResidencyTable& experts) {
  const std::span<const ExpertRecord> records = experts.records();
  experts_.resize(records.size());
  unranked_.resize(records.size());
  size_t held = 0;
  double farthest = 0;
  // Whether an expert is held is hard to predict for a processor, so nothing here branches on it.
  for (size_t id = 0; id < records.size(); ++id) {
    const unsigned present = records[id].state != ResidencyState::kAbsent, pinned = records[id].pinned;
    Expert& expert = experts_[id];
    expert = {.next_use = input.next_use[id],
              .rank = kUnranked,
              .used_at = kUnused,
              .held = (present & ~pinned) != 0,
              .pinned = (present & pinned) != 0,
              .listed = false,
              .used_by_pass = false,
              .goes_now = false,
              .goes_after_use = false};
    unranked_[held] = static_cast<ExpertId>(id);
    held += expert.held;
    farthest = std::max(farthest, expert.next_use * expert.held);
  }
  unranked_.resize(held);
  loads_.clear();
  gone_.clear();
  heap_.clear();
  rounds_ = {.batch = static_cast<double>(input.batch_visits),
             .layers = static_cast<double>(input.layers),
             .visits = static_cast<double>(input.visits.size())};
  heap_from_ = rounds_.of(farthest) + rounds_.layers;
  free_slots_ = experts.free_slots().size();
  size_t entry = 0;
  for (size_t time = 0; time < input.visits.size(); ++time) {
    visit(input, experts, time, entry);
    entry += input.visits[time].ids.size();
  }
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
    rank_again(id);
  }
  for (size_t entry = 0; entry < visit.ids.size(); ++entry) {
    const ExpertId id = visit.ids[entry];
    const double chance = visit.chances[entry];
    Expert& expert = experts_[id];
    if (chance < least || expert.held || expert.pinned || !make_room(input, time, chance)) continue;
    expert.used_at = static_cast<int32_t>(time);
    expert.held = true;
    expert.rank = 0;
    rank_again(id);
    list(id);
  }
}

bool Rehearsal::make_room(const Input& input, size_t time, double chance) {
  if (free_slots_ > 0) {
    --free_slots_;
    return true;
  }
  Expert* victim = next_victim();
  if (victim == nullptr) return chance >= kLikely;
  if (chance < least_chance(input.link, victim->next_use - static_cast<double>(time))) return false;
  victim->held = false;
  if (victim->used_at >= static_cast<int32_t>(input.pass_visits)) return true;
  if (!victim->goes_now && !victim->goes_after_use) gone_.push_back(static_cast<ExpertId>(victim - experts_.data()));
  (victim->used_at == kUnused ? victim->goes_now : victim->goes_after_use) = true;
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
double Rehearsal::rank(const Expert& expert) const {
  const double next = expert.next_use;
  if (next < rounds_.batch) return next;
  // Below 1, so that it orders experts only within a round.
  const double free = (rounds_.visits - expert.used_at + next / (next + 1)) / (rounds_.visits + 2);
  return rounds_.of(next) + rounds_.layers * free;
}

void Rehearsal::rank_again(ExpertId id) {
  Expert& expert = experts_[id];
  if (!expert.held) return;
  if (expert.next_use < heap_from_) {
    if (expert.rank != kUnranked) unranked_.push_back(id);
    expert.rank = kUnranked;
    return;
  }
  expert.rank = rank(expert);
  heap_.push_back({expert.rank, id});
  std::push_heap(heap_.begin(), heap_.end());
}

Rehearsal::Expert* Rehearsal::next_victim() {
  for (;;) {
    while (!heap_.empty()) {
      const Ranked first = heap_.front();
      Expert& expert = experts_[first.id];
      if (expert.held && expert.rank == first.rank) return &expert;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    if (unranked_.empty()) return nullptr;
    fill_heap();
  }
}

void Rehearsal::fill_heap() {
  // Half of the rounds that are left, so that few calls reach the nearest.
  heap_from_ = heap_from_ > rounds_.batch ? rounds_.of((rounds_.batch + heap_from_) / 2) : -kInfinity;
  std::erase_if(unranked_, [&](ExpertId id) {
    Expert& expert = experts_[id];
    if (expert.rank != kUnranked) return true;
    if (expert.next_use < heap_from_) return false;
    expert.rank = rank(expert);
    heap_.push_back({expert.rank, id});
    return true;
  });
  std::make_heap(heap_.begin(), heap_.end());
}

}  // namespace sida
