#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "device/device_memory.h"
#include "expert/expert_layout.h"
#include "expert/residency_table.h"
#include "expert/transfer_engine.h"

namespace sida {

/// What to prefetch and evict during a pass. The evictable expert with the largest key is the next victim; of equal
/// keys, the least recently used one. The key is usually the time of the expert's next use. Without keys all are 0.
struct ResidencyPlan {
  std::span<const double> keys;        ///< (experts) until the pass needs the expert
  std::span<const double> keys_after;  ///< (experts) from then on
  std::span<const ExpertId> loads;     ///< to prefetch, most urgent first
  /// Prefetches evict only experts with at least this key. A layer evicts an expert with a smaller key only when it
  /// cannot wait for a better victim. Keys above this value contain it: it is subtracted from the key of an expert that
  /// a prefetch brings back.
  double expendable = 0;
  bool newest_first = false;  ///< of equal keys, evict the most recently used
};

/// How a layer found an expert that it needed.
enum class Found : uint8_t { kUnused, kResident, kPrefetched, kLate, kOnDemand };
/// In the order of their numbers.
inline constexpr std::array<const char*, 5> kFoundNames{"unused", "resident", "prefetched", "late",
                                                        "on_demand"};

struct StoreStats {
  uint64_t needed = 0;
  uint64_t resident = 0;
  uint64_t prefetched = 0;
  uint64_t late = 0;
  uint64_t on_demand = 0;
  uint64_t prefetches_begun = 0;
  uint64_t prefetches_cancelled = 0;  ///< before their transfer began
  uint64_t prefetches_wasted = 0;     ///< evicted before they were needed
  uint64_t bytes_moved = 0;
  uint64_t stall_ns = 0;
  uint64_t disk_reads = 0;
  uint64_t disk_bytes = 0;
  uint64_t overtakes = 0;  ///< demands read before the rest of a prefetch
};

/// The experts of one model across its tiers: which are in a device slot, which are loading, which are evicted next.
/// One thread uses it; the readers' threads only change loading to resident.
class ExpertStore {
 public:
  /// Allocates `slots` slots; throws budget_too_small when they do not fit, io_error when the disk cannot be
  /// measured.
  ExpertStore(const ExpertLayout& layout, DeviceMemory& memory, DiskTier& disk, HostTier& host,
              SimulatedLink link, ReadTuning tuning, size_t slots);

  const ExpertLayout& layout() const { return layout_; }
  size_t slots() const { return slot_count_; }
  /// How each file of the disk tier is read.
  const std::vector<ReadSettings>& read_settings() const { return transfers_.settings(); }
  ResidencySnapshot snapshot() const;
  /// Figures since the last call.
  StoreStats take_stats();

  /// Begins a pass with a plan. Its prefetches go on until the next plan, also after the pass. Each takes a free slot
  /// or evicts an expendable expert with a larger key than its own; where there is neither, it waits. A planned expert
  /// that is still resident is prefetched after its eviction, and one that the pass has already needed is not
  /// prefetched. Does not block. Throws invalid_request where the plan does not fit the layout.
  void start_pass(const ResidencyPlan& plan);

  /// Grows or shrinks to `slots`; evicts by the last plan's keys when it must. Blocks until it holds.
  /// Throws cannot_run when pinned experts would not fit.
  void resize(size_t slots);

  /// A pinned expert is loaded and never evicted. One slot always stays unpinned. Throws cannot_run.
  void pin(std::span<const ExpertId> ids, bool pinned);

  /// Throws internal when an invariant is broken. Call between passes.
  void check_integrity() const;

 private:
  friend class LayerVisit;

  double key(ExpertId id) const { return (records_[id].used ? keys_after_ : keys_)[id]; }
  /// kNoExpertId: no expert may be evicted.
  ExpertId next_victim() const;
  uint32_t evict(ExpertId id);
  std::optional<uint32_t> take_slot();
  void set_plan(const ResidencyPlan& plan);
  void begin_prefetches();
  void load_now(std::unique_lock<std::mutex>& lock, std::span<const ExpertId> ids);
  /// Collects loads that are needed together; begin_gathered() then submits them at once.
  void gather_load(ExpertId id, uint32_t slot, TransferPriority priority);
  void begin_gathered(TransferPriority priority);
  void finish_load(ExpertId id, std::exception_ptr error);
  void cancel_waiting_prefetches(bool also_planned);
  void drain_loads(std::unique_lock<std::mutex>& lock);
  ResidencySnapshot snapshot_locked() const;

  ExpertLayout layout_;
  DeviceMemory& memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExpertRecord> records_;
  std::vector<DeviceBuffer> slots_;
  std::vector<uint32_t> free_slots_;
  size_t slot_count_ = 0;
  size_t loading_ = 0;
  size_t prefetching_ = 0;  ///< prefetches submitted and not ended, promoted ones included
  size_t waiting_demands_ = 0;
  std::vector<double> keys_;
  std::vector<double> keys_after_;
  double expendable_ = 0;
  bool newest_first_ = false;
  std::vector<ExpertId> loads_;
  uint64_t clock_ = 0;
  uint64_t visits_ = 0;
  StoreStats stats_;
  std::exception_ptr load_error_;
  std::vector<TransferEngine::Request> gathered_;
  /// Lists of the running visit. Kept from visit to visit, so that a visit without loads allocates nothing.
  struct {
    std::vector<ExpertId> leased, missing, held;
  } visit_;
  TransferEngine transfers_;
};

/// One layer's use of the store; one visit at a time. Hands out each needed expert once, resident experts first, while
/// the others load. Leases end with the visit, also when an exception ends it.
class LayerVisit {
 public:
  /// `needed`: expert indices of the layer, ascending. `found` (experts of a layer) receives a Found for
  /// each.
  LayerVisit(ExpertStore& store, size_t layer, std::span<const uint16_t> needed, uint8_t* found);
  ~LayerVisit();
  LayerVisit(const LayerVisit&) = delete;
  LayerVisit& operator=(const LayerVisit&) = delete;

  struct Expert {
    uint16_t index;
    const std::byte* block;
  };
  /// The next expert, valid until the next call of next(); nothing when all were handed out. Blocks until one is
  /// resident. Throws io_error when a load failed.
  std::optional<Expert> next();
  /// One more expert, to be computed together with the one from next() and valid as long. Never blocks: nothing when no
  /// other expert is resident, or when a load waits for a slot, because experts handed out keep their slots.
  std::optional<Expert> next_ready();

 private:
  void begin_demands();
  /// Whether to wait for this visit to release an expert that is needed later than the next victim, because the victim
  /// would have to be loaded again. True only while enough experts are resident or loading to keep the layer busy.
  bool better_waits() const;
  void release_held();
  std::optional<Expert> hand_out();

  ExpertStore& store_;
  ExpertId first_id_;
  std::vector<ExpertId>& leased_;   ///< resident or loading, not handed out yet
  std::vector<ExpertId>& missing_;  ///< absent, last needed first
  std::vector<ExpertId>& held_;     ///< handed out since the last call of next()
};

}  // namespace sida
