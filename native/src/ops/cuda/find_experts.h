#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/device_passes.h"

// The experts of a MoE layer, found and brought without the host. All pointers but `log` are to device memory.
namespace sida::cuda {

struct ProductRows;

/// The numbers of an SlotTable that change within a pass or from pass to pass.
struct TableHead {
  uint64_t clock;
  double expendable;
  uint32_t slots;
  uint32_t prefetches;
  uint32_t newest_first;
  uint32_t stopped;
};

/// An SlotTable on the device.
struct DeviceTable {
  TableHead* head;
  ExpertId* prefetches;  ///< kNothing: begun
  uint32_t* slot_of;
  TableExpert* experts;
  TableSlot* slots;
};

/// Bytes before a table's prefetches, and before `slot_of`.
inline constexpr size_t kHeadBytes = 64, kSlotOfBegins = kHeadBytes + kMostLentPrefetches * sizeof(ExpertId);

/// Where a table of `experts` experts lies at `base`; `experts`, which is not set where all are resident, lies last.
inline DeviceTable table_at(std::byte* base, size_t experts) {
  const size_t slots = kSlotOfBegins + (experts * sizeof(uint32_t) + 15) / 16 * 16;
  return {reinterpret_cast<TableHead*>(base), reinterpret_cast<ExpertId*>(base + kHeadBytes),
          reinterpret_cast<uint32_t*>(base + kSlotOfBegins),
          reinterpret_cast<TableExpert*>(base + slots + experts * sizeof(TableSlot)),
          reinterpret_cast<TableSlot*>(base + slots)};
}
constexpr size_t table_bytes(size_t experts) {
  return kSlotOfBegins + (experts * sizeof(uint32_t) + 15) / 16 * 16 +
         experts * (sizeof(TableSlot) + sizeof(TableExpert));
}

/// An expert's block and the slot that it is copied to.
struct ExpertMove {
  const std::byte* from;
  std::byte* to;
};

inline constexpr size_t kMostMoves = kMostDeviceChoices + kMostLayerPrefetches;

/// The choices of a layer, as choose() leaves them and as the products and add_expert_outputs() take them.
struct DeviceChoices {
  uint16_t* expert;       ///< (choices): as the router chose
  float* alpha;           ///< (choices): the same
  uint32_t* order;        ///< (choices), by expert
  uint32_t* positions;    ///< (tokens, k), by expert
  float* alphas;          ///< (tokens, k): of `positions`
  ExpertMove* moves;      ///< (kMostMoves): what the layer needs; from kMostDeviceChoices on prefetches
  uint32_t* move_count;   ///< (2): of these and of prefetches
  ProductRows* products;  ///< (3, kMostDeviceChoices): of gates, of up and of down projections
};

/// Where a matrix lies in an expert's block.
struct BlockMatrix {
  uint64_t weights;
  uint64_t bias;  ///< kNoBias: none
};
inline constexpr uint64_t kNoBias = UINT64_MAX;

struct FindTask {
  DeviceTable table;
  DeviceChoices choices;
  LayerLog* log;   ///< in page-locked memory of the host
  uint32_t count;  ///< choices, at most kMostDeviceChoices
  uint32_t k;
  uint32_t most;  ///< products that are listed; the last ones may have no rows
  uint32_t turn;
  ExpertId first_of_pass;  ///< first expert of the pass's first MoE layer
  ExpertId first, end;     ///< experts of the layer
  BlockMatrix gate, up, down;
  const float* x;  ///< (tokens, ..): rows of the gate and up projections
  float* hidden;   ///< (choices, hidden_width): their outputs, by expert
  float* outputs;  ///< (choices, width): of the down projections, by expert
  uint32_t width, hidden_width;
};

/// Bytes of DeviceChoices::products.
size_t listed_products_bytes();
/// The products of one projection.
const ProductRows* listed_products(const DeviceChoices& choices, Projection projection);

/// Sorts the choices by expert, gives each needed expert a slot, and lists moves and products. A missing expert takes a
/// free slot, or that of the next victim by SlotTable that the layer does not need. Then prefetches take slots.
void find_experts(const FindTask& task, cudaStream_t stream);

/// Copies the blocks (`bytes` each, a multiple of 16) of the listed moves, without prefetches.
void move_experts(const DeviceChoices& choices, size_t bytes, cudaStream_t stream);
/// Copies the blocks of the listed prefetches, with few blocks of threads, as products run at the same time.
void move_prefetches(const DeviceChoices& choices, size_t bytes, cudaStream_t stream);

}  // namespace sida::cuda
