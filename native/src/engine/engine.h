#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/backend.h"
#include "device/device_memory.h"
#include "engine/memory_plan.h"
#include "expert/disk_tier.h"
#include "expert/expert_store.h"
#include "expert/host_tier.h"
#include "checkpoint/pack.h"
#include "model/kv_cache.h"
#include "model/switch_model.h"
#include "model/switch_weights.h"

namespace sida {

struct EngineOptions {
  std::string pack;           ///< packed model directory
  uint64_t budget_bytes = 0;  ///< hard limit of device bytes
  uint64_t host_bytes = 0;    ///< host tier; 0 is none
  BatchLimits limits;
  SimulatedLink link;
  ReadTuning reads;
};

enum class Phase { kEncode, kDecode };

/// One step over a ragged batch; see src/native/addon-types.ts (NativeBatch) for the fields.
struct Batch {
  Phase phase = Phase::kEncode;
  std::span<const int32_t> sequences;
  std::span<const int32_t> contexts;
  std::span<const int32_t> offsets;
  std::span<const int32_t> tokens;
  std::span<const int32_t> logit_rows;
  /// Encode only, optional: keys that may be attended to in each sequence, when its tail is padding.
  std::span<const int32_t> attended;
  /// Optional: where the tokens go, in place of the model's routers.
  PredictedRouting routing = {};
  /// Layers stream as wholes: each takes all its experts.
  bool whole_layers = false;
};

/// Where a step puts its answers; null where not wanted. Sizes as in RunResult of addon-types.ts.
struct BatchOutput {
  float* logits = nullptr;
  float* hidden_states = nullptr;
  float* router_logits = nullptr;
  uint16_t* dispatch = nullptr;
  uint8_t* found = nullptr;
};

struct RunStats : StoreStats {
  uint64_t pass_ns = 0;
};

/// A model with part of its experts on the device. Not thread-safe; calls block.
class Engine {
 public:
  /// Throws pack_invalid, io_error, out_of_memory, and budget_too_small with the bytes needed.
  explicit Engine(const EngineOptions& options);

  const SwitchConfig& config() const { return pack_.config; }
  const Pack& pack() const { return pack_; }
  const MemoryPlan& plan() const { return plan_; }
  const DeviceMemory& memory() const { return memory_; }
  const HostTier& host() const { return host_; }
  DiskTier& disk() { return disk_; }
  const KvCache& cache() const { return cache_; }
  ExpertStore& store() { return store_; }
  /// MoE layers of a phase: first flat layer and count.
  std::pair<size_t, size_t> moe_layers(Phase phase) const;

  /// Throws invalid_request for a malformed batch, cannot_run when the KV cache is full, io_error when an
  /// expert cannot be read. After an error the batch has left nothing behind.
  /// `on_routed` may call store().update_plan() and nothing else of the engine.
  RunStats run(const Batch& batch, const ResidencyPlan& plan, const BatchOutput& output,
               const RoutedHook& on_routed = {});

  /// Throws invalid_request where `batch` is malformed. run() calls it too.
  void check(const Batch& batch) const;

  void release_contexts(std::span<const int32_t> ids);
  void release_sequences(std::span<const int32_t> ids);

  /// Returns when the device holds at most `bytes`; never more than the old or the new budget meanwhile.
  /// Throws budget_too_small or cannot_run and changes nothing.
  void set_budget(uint64_t bytes);

 private:
  void check_routing_of(const Batch& batch) const;

  struct Context {
    std::vector<uint32_t> pages;
    size_t keys = 0;
  };
  struct Sequence {
    int32_t context = 0;
    std::vector<uint32_t> pages;
    size_t length = 0;
  };

  void encode(const Batch& batch, const RoutingTrace& trace);
  void decode(const Batch& batch, const RoutingTrace& trace);

  Pack pack_;
  BatchLimits limits_;
  MemoryPlan plan_;
  size_t slots_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  DenseLayout dense_layout_;
  DeviceBuffer dense_;
  KvCache cache_;
  DiskTier disk_;
  HostTier host_;
  ExpertStore store_;
  SwitchWeights weights_;
  std::unique_ptr<SwitchModel> model_;
  std::unordered_map<int32_t, Context> contexts_;
  std::unordered_map<int32_t, Sequence> sequences_;
};

}  // namespace sida
