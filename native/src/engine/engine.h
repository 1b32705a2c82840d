#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "checkpoint/pack.h"
#include "device/backend.h"
#include "device/device_memory.h"
#include "engine/batch.h"
#include "engine/logit_rows.h"
#include "engine/memory_plan.h"
#include "engine/sequences.h"
#include "expert/expert_file.h"
#include "expert/expert_store.h"
#include "expert/host_tier.h"
#include "graph/model.h"
#include "kv/kv_cache.h"
#include "ops/ops.h"
#include "peers/peer_links.h"
#include "weights/model_weights.h"

namespace sida {

struct EngineOptions {
  std::string pack;           ///< packed model directory
  uint64_t budget_bytes = 0;  ///< hard limit of bytes on the device
  uint64_t host_bytes = 0;    ///< host tier, and memory with which the CPU computes experts there; 0 is none
  BatchLimits limits;
  SimulatedLink link;
  ReadTuning reads;
  EvictionRule eviction = EvictionRule::kFarthestNextUse;
  PeerLinksOptions peers = {};
  HostExpertsOptions cpu_experts = {};
};

struct RunStats : StoreStats {
  uint64_t pass_ns = 0;
  uint64_t peer_wait_ns = 0;  ///< of stall_ns, for answers of peers
  bool alone = false;         ///< the device ran the pass without the host
};

/// The plan of a pass, or the needs that the engine plans for and learns from.
using PassPlan = std::variant<ResidencyPlan, PassNeeds>;

/// A model with part of its experts on the device. Not thread-safe; calls block.
class Engine {
 public:
  /// Throws pack_invalid, io_error, out_of_memory, and budget_too_small with the bytes needed.
  explicit Engine(const EngineOptions& options);

  const ModelSpec& spec() const { return pack_.spec; }
  const Pack& pack() const { return pack_; }
  const MemoryPlan& plan() const { return plan_; }
  const DeviceMemory& memory() const { return memory_; }
  const HostTier& host() const { return host_; }
  /// Memory of the host's budget with which the CPU computes experts; 0: it does not.
  uint64_t host_experts_bytes() const { return host_experts_bytes_; }
  ExpertFile& disk() { return *disk_; }
  const KvCache& cache() const { return cache_; }
  ExpertStore& store() { return store_; }
  const PeerLinks& peers() const { return peers_; }
  const PassPlanner& planner() const { return planner_; }

  /// Throws invalid_request for a malformed batch, cannot_run when the KV cache is full, io_error when an expert cannot
  /// be read. After an error the sequences are as before the batch. Only sequences with recurrent states cannot be
  /// continued then, if the pass had begun. Where logits are not finite, the pick is −1 − t, t the first token with
  /// such a logit, and the log-probabilities of the pick and of queries are NaN.
  RunStats run(const Batch& batch, const PassPlan& plan, const BatchOutput& output);

  /// Throws invalid_request where `batch` is malformed. run() calls it too.
  void check(const Batch& batch) const;

  /// Ends sequences; unknown ids are ignored.
  void release_sequences(std::span<const int32_t> ids) { sequences_.release(ids); }
  /// See Sequences.
  void fork_sequence(int32_t from, int32_t to, size_t tokens) { sequences_.fork(from, to, tokens); }
  void keep_pages(int32_t from, int32_t to, size_t tokens) { sequences_.keep_pages(from, to, tokens); }
  void share_pages(int32_t id, int32_t from, size_t tokens) { sequences_.share(id, from, tokens); }

  /// Blocks until the device holds at most `bytes`. Meanwhile it never holds more than the larger of the old and the
  /// new budget. Throws budget_too_small or cannot_run, and then changes nothing.
  void set_budget(uint64_t bytes);

  /// Throws internal when an invariant of the expert store or of the KV cache is broken.
  void check_integrity() const;

 private:
  /// Runs the model, without the host where it `may_run_alone` and the store lends its table. Whether it ran alone.
  bool run_model(const Batch& batch, std::span<const SequenceSpan> spans, RoutingTrace trace, bool may_run_alone);
  /// Whether the device can run the pass without the host, if the store lends its table.
  bool may_run_alone(const Batch& batch, const RoutingTrace& trace) const;
  /// Fills the device's table. False where the store refuses.
  bool lend(const Batch& batch);

  Pack pack_;
  BatchLimits limits_;
  MemoryPlan plan_;
  size_t slots_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  DenseLayout dense_layout_;
  DeviceBuffer dense_;
  KvCache cache_;
  std::unique_ptr<ExpertFile> disk_;
  uint64_t host_experts_bytes_;  ///< of the host's budget
  HostTier host_;
  ExpertStore store_;
  PassPlanner planner_;
  ModelWeights weights_;
  std::unique_ptr<Ops> ops_;
  PeerLinks peers_;
  HostExperts host_experts_;
  Model model_;
  LogitRows logit_rows_;
  Sequences sequences_;
  /// A pass that needs an expert from the disk is lost, and run again by the host. The more are, the more passes the
  /// host runs, without a read from the disk, before the next try.
  static constexpr size_t kMostPassesToWait = 64;
  size_t passes_lost_ = 1;
  size_t passes_to_wait_ = 1;
};

}  // namespace sida
