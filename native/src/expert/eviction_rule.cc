#include "expert/eviction_rule.h"

#include <algorithm>
#include <cmath>

namespace sida {
namespace {

/// Added to the share of turns that need an expert, so that its next use is finite: one turn in 50.
constexpr double kSeldom = 0.02;
/// Rounding of a sum of turns must not count as one turn more.
constexpr double kRounding = 1e-6;

/// Later than any load so far.
constexpr double kNow = 1ull << 39;
/// Larger than any load time.
constexpr double kInactive = 1ull << 40;

/// When a layer runs, in visits from now.
struct LayerTurns {
  double cycle;       ///< from one turn of the layer to the next, on average
  double next;        ///< its turn after what tables tell of
  double after_pass;  ///< the same after the running pass

  LayerTurns(const UseRate& rate, double visits, double known) {
    const auto turns = static_cast<double>(rate.turns());
    cycle = turns == 0 ? visits + 1 : visits / turns;
    const double now = visits + 1 - static_cast<double>(rate.last_turn());
    const auto next_turn = [&](double from) {
      return std::max(1.0, std::ceil((from + now) / cycle - kRounding)) * cycle - now;
    };
    next = next_turn(known);
    after_pass = next_turn(std::max(known, next_turn(0) + 1));
  }

  /// Visits until a turn that needs the expert, behind the next turn. `share` of the turns need it.
  double more(double share) const { return cycle * ((1 + kSeldom) / (share + kSeldom) - 1); }
};

}  // namespace

void rank_by_next_use(const ResidencyTable& experts, size_t known, std::span<const PlannedVisit> own,
                      EvictionRanks& ranks) {
  auto& [before, after, unneeded] = ranks;
  // Chances at first, or -1 of experts whose layer the pass tells nothing of. The running pass counts as it is
  // forecast. Later passes do not: replays then moved more bytes.
  std::fill(before.begin(), before.end(), -1);
  for (const PlannedVisit& visit : own) {
    std::fill_n(before.begin() + visit.first, visit.experts, 0);
    for (size_t entry = 0; entry < visit.ids.size(); ++entry) before[visit.ids[entry]] = visit.chances[entry];
  }
  const auto visits = static_cast<double>(experts.visits());
  const size_t count = experts.experts();
  for (size_t id = 0; id < count;) {
    // Layers run in turn, so an expert whose layer has just run waits longest for its next use.
    const UseRate& first = experts.use_rate(static_cast<ExpertId>(id));
    const LayerTurns turn(first, visits, static_cast<double>(known));
    const double gain = UseRate::Weights(first.turns()).gain();
    // The experts of a layer have the same turns, and lie one behind the other.
    for (; id < count; ++id) {
      const UseRate& rate = experts.use_rate(static_cast<ExpertId>(id));
      if (rate.turns() != first.turns() || rate.last_turn() != first.last_turn()) break;
      const double without = rate.unneeded();
      const double share = before[id] < 0 ? rate.value() : without + before[id] * gain;
      before[id] = turn.next + turn.more(share);
      after[id] = turn.after_pass + turn.more(without + gain);
      unneeded[id] = turn.after_pass + turn.more(without);
    }
  }
}

void rank_by_past(const ResidencyTable& experts, EvictionRule rule, EvictionRanks& ranks) {
  for (size_t id = 0; id < experts.experts(); ++id) {
    const ExpertRecord& record = experts.record(static_cast<ExpertId>(id));
    // After its use an absent expert counts as loaded now, because the pass must load it.
    const auto loaded = static_cast<double>(record.loaded_at);
    const double later = record.state == ResidencyState::kAbsent ? kNow : loaded;
    // Among equal numbers the table evicts the least recently used expert, which is LRU.
    double now = 0;
    double used = 0;
    if (rule == EvictionRule::kLfu) {
      now = -static_cast<double>(record.uses);
      used = now - 1;
    } else if (rule == EvictionRule::kFifo) {
      now = -loaded;
      used = -later;
    } else if (rule == EvictionRule::kExpertBuffering) {
      now = loaded + kInactive;
      used = later;
    }
    ranks.before[id] = ranks.unneeded[id] = now;
    ranks.after[id] = used;
  }
}

}  // namespace sida
