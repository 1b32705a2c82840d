#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/pack.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"
#include "weights/weight_format.h"

namespace sida {

/// The largest `max_routing_k`.
inline constexpr size_t kMaxRoutingK = 64;

/// How the bytes of the device are used. All sizes are whole pages of it.
struct MemoryPlan {
  uint64_t driver = 0;  ///< of a GPU: see gpu_driver_bytes(), and room for the predictor's networks
  uint64_t dense = 0;
  uint64_t routers = 0;  ///< part of the dense file, listed apart
  uint64_t kv_cache = 0;
  uint64_t workspace = 0;
  uint64_t host_workspace = 0;        ///< of the host's budget: HostExperts::bytes()
  uint64_t slot = 0;                  ///< room for the largest expert
  uint64_t block = 0;                 ///< the largest expert in the host's memory
  std::vector<uint64_t> block_bytes;  ///< of an expert in the pack, by MoE layer
  std::vector<size_t> layer_experts;  ///< by MoE layer
  uint64_t experts = 0;
  uint64_t context = 0;       ///< tokens of the model's own context; 0: its config has none
  uint64_t token_dense = 0;   ///< bytes of dense weights and routers that one token reads: an embedding is one row
  uint64_t token_demand = 0;  ///< slots that one token needs: MoE layers · top-k

  uint64_t fixed() const { return driver + dense + routers + kv_cache + workspace; }
  /// A model without MoE layers needs no slot.
  uint64_t smallest() const { return fixed() + (experts > 0 ? slot : 0); }
  uint64_t resident() const { return fixed() + slot * experts; }
  /// Below this an LRU cache cannot hold the experts of one token, so a single generation never hits.
  uint64_t recency_floor() const { return fixed() + slot * token_demand; }
  /// Slots that fit in `budget`. Throws budget_too_small below smallest().
  uint64_t slots_in(uint64_t budget) const;
};

/// The limits that an engine of this model uses: max_routing_k is at least the routers' top-k.
BatchLimits fit_limits(const ModelSpec& spec, BatchLimits limits);

/// Throws invalid_request where `limits` ask for more experts a token than a layer has, device_unavailable
/// where this build does not know the device.
MemoryPlan plan_memory(const Pack& pack, const BatchLimits& limits);
/// The same of a pack with one type for its experts and one for its dense matrices.
MemoryPlan plan_memory(const ModelSpec& spec, WeightFormat experts, WeightFormat dense, const BatchLimits& limits);

}  // namespace sida
