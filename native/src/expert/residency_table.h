#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "expert/use_rate.h"
#include "expert/victim_queue.h"
#include "weights/expert_layout.h"

namespace sida {

enum class ResidencyState : uint8_t { kAbsent, kLoading, kResident };
/// In the order of their numbers.
inline constexpr std::array<const char*, 3> kResidencyStates{"absent", "loading", "resident"};

/// Least chance at which a foreseen need is worth a slot, where the plan does not say. A wrong one costs a move in time
/// that the link was idle, and another to reload what it evicted.
inline constexpr double kLeastForeseenChance = 0.4;

inline constexpr uint32_t kNoSlot = UINT32_MAX;
inline constexpr ExpertId kNoExpertId = UINT32_MAX;

/// The key of an expert of whose next use nothing is known.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// The table's record of one expert.
struct ExpertRecord {
  ResidencyState state = ResidencyState::kAbsent;
  bool pinned = false;
  /// Loaded by a prefetch and not used since.
  bool prefetched = false;
  /// In the plan's loads, and neither resident nor needed yet.
  bool planned = false;
  /// The running pass has needed it, so `keys_after` holds its key.
  bool used = false;
  /// Its layer has run in this pass without needing it, so `keys_unneeded` holds its key.
  bool unneeded = false;
  /// Its running load began as a prefetch.
  bool prefetching = false;
  /// Loaded by the running visit, and not handed out yet.
  bool demanded = false;
  /// Loaded for a foreseen need whose layer has not run.
  bool foreseen = false;
  /// A connected peer holds it: it is the first to be evicted, and is not prefetched.
  bool elsewhere = false;
  uint32_t slot = kNoSlot;
  /// Uses by the running layer; above 0 the expert is never a victim.
  uint32_t leases = 0;
  uint64_t uses = 0;
  /// Ticks of the table's clock; 0 is never.
  uint64_t last_use = 0;
  uint64_t loaded_at = 0;

  bool evictable() const { return state == ResidencyState::kResident && !pinned && leases == 0; }
};

/// A copy of the table for the eviction policy, one entry an expert.
struct ResidencySnapshot {
  std::vector<uint8_t> state;
  std::vector<uint8_t> pinned;
  std::vector<double> uses;
  std::vector<double> loaded_at;
  std::vector<double> turns;              ///< of the expert's layer
  std::vector<double> last_turn;          ///< of the expert's layer: which visit of all it was, from 1; 0 is none
  std::vector<double> use_rate;           ///< share of them that needed it, by UseRate
  std::vector<double> use_rate_needed;    ///< the share if one more turn needed it
  std::vector<double> use_rate_unneeded;  ///< the share if one more turn did not
  uint32_t slots = 0;
  uint32_t free_slots = 0;
  uint64_t visits = 0;
};

/// What to prefetch and evict during a pass. The evictable expert with the largest key is the next victim; of equal
/// keys, the least recently used one. The key is usually the time of the expert's next use. Without keys all are
/// infinite.
struct ResidencyPlan {
  std::span<const double> keys{};        ///< (experts) until the pass needs the expert
  std::span<const double> keys_after{};  ///< (experts) from then on
  std::span<const ExpertId> loads{};     ///< to prefetch, most urgent first
  /// Prefetches evict only experts with at least this key. A layer evicts an expert with a smaller key only when it
  /// cannot wait for a better victim. Keys above this value contain it: it is subtracted from the key of an expert that
  /// a prefetch brings back.
  double expendable = 0;
  bool newest_first = false;  ///< of equal keys, evict the most recently used
  /// (experts) once the expert's layer has run without needing it; `keys` where there are none
  std::span<const double> keys_unneeded = {};
  /// A layer also waits for a better victim where the next one is expendable, while enough of its own loads are running
  /// or wait to be handed out.
  bool patient = false;
  /// Least chance at which a foreseen need is worth a slot.
  double least_foreseen = kLeastForeseenChance;
};

/// An expert that a later layer of the running pass will likely need.
struct ForeseenNeed {
  ExpertId id;
  double time;  ///< the layer's place among those of the pass
  double chance;
  bool absent = false;  ///< when it was foreseen
};

/// How a layer found an expert that it needed.
enum class Found : uint8_t { kUnused, kResident, kPrefetched, kLate, kOnDemand, kPeer, kCpu };
/// In the order of their numbers.
inline constexpr std::array<const char*, 7> kFoundNames{"unused",    "resident", "prefetched", "late",
                                                        "on_demand", "peer",     "cpu"};

struct ResidencyStats {
  uint64_t needed = 0;
  uint64_t resident = 0;
  uint64_t prefetched = 0;
  uint64_t late = 0;
  uint64_t on_demand = 0;
  uint64_t peer = 0;  ///< asked of a peer
  uint64_t cpu = 0;   ///< computed by the CPU of a server with a GPU
  uint64_t prefetches_begun = 0;
  uint64_t prefetches_foreseen = 0;   ///< of those begun, for foreseen needs
  uint64_t prefetches_cancelled = 0;  ///< before their transfer began
  uint64_t prefetches_wasted = 0;     ///< evicted before they were needed
};

/// An expert that is to be moved into a slot.
struct SlotLoad {
  ExpertId id;
  uint32_t slot;
};

/// Decides which expert has which slot, which is loaded next and which is evicted. A store moves the bytes and reports
/// the end of each load. Not thread-safe; nothing blocks.
class ResidencyTable {
 public:
  explicit ResidencyTable(size_t experts)
      : records_(experts),
        use_rates_(experts),
        use_shares_(experts),
        keys_(experts, kNever),
        keys_after_(experts, kNever),
        keys_unneeded_(experts, kNever),
        victims_(experts),
        foreseen_at_(experts, kNever) {}

  size_t experts() const { return records_.size(); }
  size_t slots() const { return slots_; }
  const std::vector<uint32_t>& free_slots() const { return free_slots_; }
  /// Loads that have not ended.
  size_t loading() const { return loading_; }
  const ExpertRecord& record(ExpertId id) const { return records_.at(id); }
  std::span<const ExpertRecord> records() const { return records_; }
  std::span<const UseRate> use_rates() const { return use_rates_; }  ///< (experts)
  /// What victims are chosen by: see ResidencyPlan.
  struct Keys {
    double before, after, unneeded;
  };
  Keys keys(ExpertId id) const { return {keys_[id], keys_after_[id], keys_unneeded_[id]}; }
  bool newest_first() const { return victims_.newest_first(); }
  /// Ticks of needs and loads so far.
  uint64_t clock() const { return clock_; }
  /// The plan's loads that have not begun, most urgent first.
  const std::vector<ExpertId>& planned_loads() const { return planned_loads_; }
  double expendable() const { return expendable_; }
  /// MoE layers that have run so far.
  uint64_t visits() const { return visits_; }
  ResidencySnapshot snapshot() const;
  /// Figures since the last call.
  ResidencyStats take_stats();

  /// Throws cannot_run where the pinned experts would take all of `slots`.
  void check_slots(size_t slots) const;
  void add_slot(uint32_t slot);
  /// Removes a free slot, or evicts an expert by the last plan's keys; nothing where no expert may be evicted.
  std::optional<uint32_t> remove_slot();

  /// Begins a pass with a plan. Throws invalid_request where the plan does not fit the experts.
  void start_pass(const ResidencyPlan& plan);
  /// Replaces what is foreseen, and sets `absent` of each need. Until its layer runs, the key of an expert that is
  /// foreseen with at least the plan's `least_foreseen` is at most the time of the need; those of at least
  /// `least_load_chance`, too, are loaded.
  void foresee(std::span<ForeseenNeed> needs, double least_load_chance = kLeastForeseenChance);
  /// The visit's layer, of experts [first, end), has named all its needs. Counts its turn, takes the keys of unneeded
  /// experts, and forgets what was foreseen for it.
  void layer_runs(ExpertId first, ExpertId end);
  /// The next load that may take a slot now: a free one, or that of an expendable expert with a larger key. Foreseen
  /// needs go before the plan, but wait while a visit waits for loads. Nothing when `most` prefetches are running, or
  /// when a visit waits for slots.
  std::optional<SlotLoad> next_prefetch(size_t most);
  void forget_planned_loads() {
    planned_loads_.clear();
    foreseen_loads_.clear();
  }
  /// Whether the running load may be taken back: no layer needs it, and the last plan does not name it.
  /// `also_planned`: even when the last plan names it.
  bool may_cancel(ExpertId id, bool also_planned) const;
  void cancel_load(ExpertId id);
  /// The load ended: the expert is resident, or, where it was not `moved`, absent.
  void finish_load(ExpertId id, bool moved);

  /// A visit is one layer's use of its experts: begin it, name each one that the layer needs, then take them as they
  /// are handed out. One at a time.
  void begin_visit();
  /// Each expert once.
  Found need(ExpertId id);
  /// Need of an expert that a peer or the CPU is asked for.
  void need_elsewhere(ExpertId id, Found by);
  /// The peer did not answer: the visit needs the expert here.
  Found bring_back(ExpertId id);
  /// The next load that the visit waits for. Nothing when no slot can be freed, or when `enough` experts keep the layer
  /// busy and one of them is a better victim once it is released.
  std::optional<SlotLoad> next_demand(size_t enough);
  /// A resident expert that the visit needs, each once. It is held until release_held().
  std::optional<ExpertId> hand_out();
  void release_held();
  void end_visit();
  /// A device has moved an expert by itself, which a layer needed or which was a `prefetch` of the plan: it is resident
  /// in `slot`, which was that of `evicted` or, with kNoExpertId, free. Throws internal where that cannot be.
  void take_move(ExpertId id, uint32_t slot, ExpertId evicted, bool prefetch);
  /// Needed by the visit, resident or loading, and not handed out yet.
  const std::vector<ExpertId>& leased() const { return leased_; }
  /// Needed by the visit, and no slot was taken for them yet.
  size_t missing() const { return missing_.size() - next_missing_; }

  /// Pinned experts are never evicted; they must be loaded at once. Gives those that were not pinned before. One slot
  /// always stays unpinned: throws cannot_run.
  std::vector<ExpertId> pin(std::span<const ExpertId> ids);
  void unpin(std::span<const ExpertId> ids);
  /// `held` (experts): 1 where a peer holds the expert.
  void set_elsewhere(std::span<const uint8_t> held);
  /// Takes a slot for an absent expert outside of any visit and holds the expert until release(). Throws internal where
  /// none can be freed.
  SlotLoad demand(ExpertId id);
  void release(ExpertId id);

  /// Throws internal when an invariant is broken. Call between passes.
  void check_integrity() const;

 private:
  double key(ExpertId id) const {
    const ExpertRecord& record = records_[id];
    if (record.elsewhere) return kNever;
    if (record.used) return keys_after_[id];
    return std::min(record.unneeded ? keys_unneeded_[id] : keys_[id], foreseen_at_[id]);
  }
  size_t pinned() const;
  /// kNoExpertId: no expert may be evicted.
  ExpertId next_victim();
  /// Call it when the expert has become evictable, or its key has changed.
  void offer(ExpertId id);
  void offer_all();
  uint32_t evict(ExpertId id);
  void count_need(ExpertId id);
  Found lease(ExpertId id);
  std::optional<uint32_t> take_slot();
  SlotLoad begin_load(ExpertId id, uint32_t slot, bool prefetch);
  SlotLoad begin_prefetch(ExpertId id, uint32_t slot);
  /// Begins the first of `loads` that may take a slot, and removes it from them.
  std::optional<SlotLoad> begin_first(std::vector<ExpertId>& loads);
  bool waits_for_loads() const;
  void forget_foreseen();
  /// Whether to wait for the visit to release an expert that is needed later than the next victim, because the victim
  /// would have to be loaded again. True only while `enough` experts are resident or loading to keep the layer busy.
  bool better_waits(size_t enough);

  std::vector<ExpertRecord> records_;
  std::vector<UseRate> use_rates_;
  std::vector<UseRate::Shares> use_shares_;
  std::vector<uint32_t> free_slots_;
  size_t slots_ = 0;
  size_t loading_ = 0;
  size_t prefetching_ = 0;  ///< prefetches that have not ended, promoted ones included
  std::vector<double> keys_;
  std::vector<double> keys_after_;
  std::vector<double> keys_unneeded_;
  double expendable_ = 0;
  bool patient_ = false;
  double least_foreseen_ = kLeastForeseenChance;
  VictimQueue victims_;
  std::vector<ExpertId> planned_loads_;
  std::vector<ExpertId> foreseen_;
  std::vector<ExpertId> foreseen_loads_;
  std::vector<double> foreseen_at_;  ///< (experts), infinite where no need is foreseen
  uint64_t clock_ = 0;
  uint64_t visit_began_ = 0;  ///< by the clock
  uint64_t visits_ = 0;
  ResidencyStats stats_;
  /// Lists of the running visit. Kept from visit to visit, so that a visit without loads allocates nothing.
  std::vector<ExpertId> leased_;
  std::vector<ExpertId> missing_;
  size_t next_missing_ = 0;
  size_t demanded_ = 0;         ///< of the leased ones, loaded by the visit
  std::vector<ExpertId> held_;  ///< handed out and not released
};

}  // namespace sida
