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
  double gain;        ///< of an expert's share by a turn that needs it

  LayerTurns(const UseRate& rate, double visits, double known) : gain(UseRate::Weights(rate.turns()).gain()) {
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

void rank_by_next_use(const ResidencyTable& experts, const ExpertShape& shape, size_t known,
                      std::span<const PlannedVisit> own, EvictionRanks& ranks) {
  double *const before = ranks.before.data(), *const after = ranks.after.data(),
                *const unneeded = ranks.unneeded.data();
  const std::span<const UseRate> rates = experts.use_rates();
  const auto turns_of = [&](ExpertId first) {
    return LayerTurns(rates[first], static_cast<double>(experts.visits()), static_cast<double>(known));
  };
  // Layers run in turn, so an expert whose layer has just run waits longest for its next use. The inner loops have no
  // branches, so that the compiler vectorizes them.
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    const size_t first = shape.first_id(layer), end = shape.first_id(layer + 1);
    if (first == end) continue;
    const LayerTurns turn = turns_of(first);
    for (size_t id = first; id < end; ++id) {
      const double without = rates[id].unneeded();
      before[id] = turn.next + turn.more(rates[id].value());
      after[id] = turn.after_pass + turn.more(without + turn.gain);
      unneeded[id] = turn.after_pass + turn.more(without);
    }
  }
  // The running pass counts as it is forecast. Later passes do not: replays then moved more bytes.
  for (const PlannedVisit& visit : own) {
    if (visit.experts == 0) continue;
    const LayerTurns turn = turns_of(visit.first);
    const double sooner = turn.next - turn.after_pass;
    for (size_t id = visit.first, end = id + visit.experts; id < end; ++id) before[id] = unneeded[id] + sooner;
    for (size_t entry = 0; entry < visit.ids.size(); ++entry) {
      const ExpertId id = visit.ids[entry];
      before[id] = turn.next + turn.more(rates[id].unneeded() + visit.chances[entry] * turn.gain);
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
