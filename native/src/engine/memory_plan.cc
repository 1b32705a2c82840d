#include "engine/memory_plan.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "device/device_memory.h"
#include "engine/devices.h"
#include "expert/expert_layout.h"
#include "model/dense_layout.h"
#include "model/kv_cache.h"

namespace sida {

uint64_t MemoryPlan::slots_in(uint64_t budget) const {
  if (budget < smallest()) {
    throw Error(
        "budget_too_small",
        "a budget of " + std::to_string(budget) + " bytes is below the smallest workable one of " +
            std::to_string(smallest()) + " bytes (dense weights and routers " +
            std::to_string(dense + routers) + ", KV cache " + std::to_string(kv_cache) + ", workspace " +
            std::to_string(workspace) + ", one expert " + std::to_string(slot) +
            "); raise the budget, or lower --max-batch-tokens and --kv-tokens",
        {{"budget_bytes", static_cast<double>(budget)}, {"needed_bytes", static_cast<double>(smallest())}});
  }
  return std::min(experts, (budget - fixed()) / slot);
}

MemoryPlan plan_memory(const SwitchConfig& config, WeightFormat experts, WeightFormat dense,
                       const BatchLimits& limits) {
  if (limits.max_routing_k > static_cast<size_t>(config.num_experts)) {
    throw Error("invalid_request", "a routing of " + std::to_string(limits.max_routing_k) +
                                       " experts a token exceeds the " + std::to_string(config.num_experts) +
                                       " experts of a layer");
  }
  if (limits.activations == ActivationFormat::kInt8 && limits.device != DeviceKind::kCpu) {
    throw Error("invalid_request", "activations of int8 are the cpu device's alone");
  }
  const int widest = std::max({config.d_model, config.d_ff, config.num_heads * config.d_kv});
  if (limits.activations == ActivationFormat::kInt8 && static_cast<size_t>(widest) > kMaxInt8Inputs) {
    throw Error("invalid_request", "activations of int8: a product over " + std::to_string(widest) +
                                       " inputs exceeds " + std::to_string(kMaxInt8Inputs) +
                                       ", where its integer sums may overflow");
  }
  const DenseLayout file = make_dense_layout(config, dense);
  const DenseLayout held = limits.routers ? file : without_routers(file);
  const ExpertLayout layout =
      make_expert_layout(experts, static_cast<size_t>(config.d_model), static_cast<size_t>(config.d_ff),
                         config.moe_layers().size(), static_cast<size_t>(config.num_experts));
  MemoryPlan plan;
  plan.routers = held.router_bytes;
  plan.dense = device_bytes(held.bytes) - plan.routers;
  plan.kv_cache = device_bytes(KvCache::bytes(config, limits.kv_tokens));
  plan.workspace = device_bytes(workspace_bytes(config, limits));
  plan.slot = device_bytes(layout.block_bytes);
  plan.experts = layout.experts();
  return plan;
}

}  // namespace sida
