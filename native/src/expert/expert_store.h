#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "device/device_memory.h"
#include "expert/link_idle.h"
#include "expert/pass_planner.h"
#include "expert/residency_table.h"
#include "expert/transfer_engine.h"
#include "ops/device_passes.h"
#include "weights/expert_layout.h"

namespace sida {

struct StoreStats : ResidencyStats {
  uint64_t bytes_moved = 0;
  uint64_t stall_ns = 0;
  uint64_t disk_reads = 0;
  uint64_t disk_bytes = 0;
  uint64_t overtakes = 0;  ///< demands read before the rest of a prefetch
};

/// An expert whose block the host tier holds until release_hosted().
struct HostedExpert {
  ExpertId id;
  uint16_t index;
  const std::byte* block;
  uint64_t uses;  ///< by passes
};

/// The experts of one model across its tiers. A residency table decides which are in a device slot, are loaded or are
/// evicted; the store moves them. One thread uses it; the readers' threads only report that loads have ended.
class ExpertStore {
 public:
  /// Allocates `slots` slots; throws budget_too_small when they do not fit, io_error when the disk cannot be
  /// measured.
  ExpertStore(const ExpertLayout& layout, DeviceMemory& memory, ExpertFile& disk, HostTier& host, SimulatedLink link,
              ReadTuning tuning, size_t slots);

  const ExpertLayout& layout() const { return layout_; }
  size_t slots() const { return residency_.slots(); }
  /// How the file of experts is read.
  const ReadSettings& read_settings() const { return transfers_.settings(); }
  ResidencySnapshot snapshot() const;
  /// Figures since the last call.
  StoreStats take_stats();

  /// Begins a pass with a plan. Its prefetches go on until the next plan, also after the pass. Each takes a free slot
  /// or evicts an expendable expert with a larger key than its own; where there is neither, it waits. A planned expert
  /// that is still resident is prefetched after its eviction, and one that the pass has already needed is not
  /// prefetched. Throws invalid_request where the plan does not fit the layout. Without `prefetches` they wait for
  /// prefetch() or lend(); where the host's memory has all experts, this then blocks until earlier loads have ended, as
  /// prefetches of the last pass would refuse lend() in each pass. With them it does not block.
  void start_pass(const ResidencyPlan& plan, bool prefetches = true);
  /// The same with the planner's plan for `needs`.
  void start_pass(PassPlanner& planner, const PassNeeds& needs, bool prefetches = true);
  void prefetch();

  /// Tells what later layers of the running pass will likely need, most urgent first; it replaces what was foreseen
  /// before, and holds until the next pass begins. Sets `absent` of each need. Likely ones are not evicted
  /// before what is needed later, and are prefetched while the running layer waits for no expert of its own, as far as
  /// the link has idled between the layers before. Does not block.
  void foresee(std::span<ForeseenNeed> needs);

  /// Grows or shrinks to `slots`; evicts by the last plan's keys when it must. Blocks until it holds.
  /// Throws cannot_run when pinned experts would not fit.
  void resize(size_t slots);

  /// A pinned expert is loaded and never evicted. One slot always stays unpinned. Throws cannot_run.
  void pin(std::span<const ExpertId> ids, bool pinned);

  /// `held` (experts): 1 where a peer holds the expert.
  void set_elsewhere(std::span<const uint8_t> held);
  /// Sets `absent` (experts of the layer): 1 for a needed expert that only the disk has, 0 for every other expert.
  void find_absent(size_t layer, std::span<const uint16_t> needed, std::span<uint8_t> absent);

  /// Fills the table for a pass that moves and prefetches experts by itself, whose layers need at most `most` at once.
  /// False where a layer might find too few slots, where a load runs, or where a planned prefetch or, if the pass
  /// `needs_all`, any expert is on the disk alone. Experts that the host's memory does not hold keep their slots.
  bool lend(SlotTable& table, size_t most, bool needs_all);
  /// Reports what `layer` of such a pass needed, in the words of LayerVisit, and which experts the device moved by
  /// `log`. `needed` is empty where the pass stopped, which then counts for nothing else.
  void take_back(size_t layer, std::span<const uint16_t> needed, const LayerLog& log, uint8_t* found);
  /// Whether the host tier holds experts and one of the layer is not on the device.
  bool may_hold_absent(size_t layer) const;
  /// Appends the needed experts that are not on the device nor on their way there, and that the host tier has.
  void hold_hosted(size_t layer, std::span<const uint16_t> needed, std::vector<HostedExpert>& hosted);
  void release_hosted(const HostedExpert& expert) { host_.release(expert.id); }
  /// Of copies from the host tier, as measured.
  double seconds_per_copied_byte() const { return transfers_.seconds_per_copied_byte(); }

  /// Throws internal when an invariant is broken. Call between passes.
  void check_integrity() const;

 private:
  friend class LayerVisit;

  void hold_in_host();

  void begin_pass(const ResidencyPlan& plan, bool prefetches);
  void begin_prefetches();
  void load_now(std::unique_lock<std::mutex>& lock, std::span<const ExpertId> ids);
  /// Collects loads that are needed together; begin_gathered() then submits them at once.
  void gather(SlotLoad load) { gathered_.push_back({load.id, slots_[load.slot].data()}); }
  void begin_gathered(TransferPriority priority);
  void finish_load(ExpertId id, std::exception_ptr error);
  void cancel_waiting_prefetches(bool also_planned);
  void drain_loads(std::unique_lock<std::mutex>& lock);

  ExpertLayout layout_;
  DeviceMemory& memory_;
  HostTier& host_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ResidencyTable residency_;
  std::vector<DeviceBuffer> slots_;
  /// (experts): blocks of the host tier that are held for passes that move experts by themselves; null: none.
  std::vector<const std::byte*> hosted_;
  uint64_t hosted_experts_ = 0;  ///< those in the tier when it was last searched
  StoreStats stats_;
  LinkIdle idle_;
  std::exception_ptr load_error_;
  std::vector<TransferEngine::Request> gathered_;
  TransferEngine transfers_;
};

/// One layer's use of the store; one visit at a time. Hands out each needed expert once, resident experts first, while
/// the others load. Leases end with the visit, also when an exception ends it.
class LayerVisit {
 public:
  /// `needed`: expert indices of the layer, ascending. `found` (experts of a layer) receives a Found for
  /// each. `asked` (experts of the layer, or none): Found::kPeer or kCpu for those that are computed
  /// elsewhere and are not handed out, else 0.
  LayerVisit(ExpertStore& store, size_t layer, std::span<const uint16_t> needed, uint8_t* found,
             std::span<const uint8_t> asked = {});
  ~LayerVisit();
  LayerVisit(const LayerVisit&) = delete;
  LayerVisit& operator=(const LayerVisit&) = delete;

  /// Begins the loads of what is missing, as next() does, too. Does not block.
  void begin_loads();
  /// Hands out these too, because no peer has answered for them. Sets `found` again.
  void bring_back(std::span<const uint16_t> indices, uint8_t* found);

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
  std::optional<Expert> hand_out();

  ExpertStore& store_;
  ResidencyTable& residency_;
  ExpertId first_id_;
};

}  // namespace sida
