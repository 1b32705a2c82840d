#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/function_ref.h"
#include "weights/expert_layout.h"
#include "weights/model_weights.h"

// Passes that a device runs without the host: it finds the experts of each MoE layer, evicts others and brings missing
// ones from the host's memory.
namespace sida {

/// Most choices (rows · top-k) of a layer in such a pass.
inline constexpr size_t kMostDeviceChoices = 128;

/// Most planned prefetches that such a pass gets, and most that a layer begins: as many as the host has in flight.
inline constexpr size_t kMostLentPrefetches = 256, kMostLayerPrefetches = 2;

/// Stands for no slot and no expert.
inline constexpr uint32_t kNothing = UINT32_MAX;

/// By what an expert is evicted, as in ResidencyPlan, and from where it comes.
struct TableExpert {
  const std::byte* host;  ///< its block, which the device can read; null: none
  uint64_t last_use;
  double key, key_after, key_unneeded;
};

struct TableSlot {
  std::byte* block;
  ExpertId expert;  ///< kNothing: free
  uint32_t fixed;   ///< kNothing: the slot keeps what it has; else 1 + turn of the last prefetch into it, 0: none
};

/// Where experts are when a pass begins. The evictable expert with the largest key is the next victim, of equal keys
/// the least recently used one, or the most recently used one.
struct SlotTable {
  std::span<uint32_t> slot_of;     ///< (experts): kNothing where absent
  std::span<TableExpert> experts;  ///< (experts)
  std::span<TableSlot> slots;      ///< (experts): of these the first `slot_count`
  size_t slot_count = 0;
  /// (kMostLentPrefetches): of these the first `prefetch_count`, most urgent first, under ResidencyPlan's rule for
  /// loads. Each is resident or in the host's memory.
  std::span<ExpertId> prefetches;
  size_t prefetch_count = 0;
  double expendable = 0;
  uint64_t clock = 0;  ///< of `last_use`
  bool newest_first = false;
  bool all_resident = false;  ///< `experts` is not set then
};

struct MovedExpert {
  ExpertId id;
  uint32_t slot;
  ExpertId evicted;  ///< kNothing: the slot was free
};

/// What a device did in a MoE layer.
struct LayerLog {
  /// The layer, or one before it, needed an expert that neither a slot nor the host's memory has. Nothing was moved,
  /// and the pass's results are worthless.
  uint32_t stopped;
  uint32_t moves;
  uint32_t prefetches;
  MovedExpert moved[kMostDeviceChoices];         ///< in this order
  MovedExpert prefetched[kMostLayerPrefetches];  ///< in this order, behind `moved`
  uint16_t expert[kMostDeviceChoices];           ///< (tokens, top_k)
};

/// A MoE layer of a pass.
struct DeviceMoeLayer {
  const FeedForwardWeights* weights;
  const RouterSpec* router;
  const ExpertLayout* layout;
  size_t first_layer;  ///< flat, of the pass
  size_t turn;         ///< its place among the pass's MoE layers
  size_t tokens;
};

/// Calls in the order of a pass: table(), then between Ops::start() and finish() run(), whose layers call
/// find_experts() and experts(). Nothing blocks.
class DevicePasses {
 public:
  virtual ~DevicePasses() = default;

  /// Whether the device can run such a pass.
  virtual bool runs(size_t stack, size_t tokens) const = 0;
  /// To be filled before a pass. Nothing else may move experts until the pass has ended.
  virtual SlotTable& table() = 0;
  /// Runs `layers`, which only launches work. Passes of one shape launch the same work, so `layers` is not called where
  /// the device has kept the work of an earlier pass.
  virtual void run(FunctionRef<void()> layers) = 0;
  /// Routes normed, then finds the experts.
  virtual void find_experts(const DeviceMoeLayer& layer) = 0;
  /// Computes the experts that find_experts() found, for Ops::combine().
  virtual void experts(const DeviceMoeLayer& layer) = 0;
  /// Of the MoE layer at `turn`, once the pass has been computed.
  virtual const LayerLog& log(size_t turn) const = 0;
};

}  // namespace sida
