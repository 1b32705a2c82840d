#include "engine/memory_plan.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "device/device_memory.h"
#include "engine/devices.h"
#include "engine/logit_rows.h"
#include "graph/blocks/host_experts.h"
#include "kv/kv_cache.h"
#include "ops/cpu/kernels.h"
#include "spec/layer_widths.h"
#include "weights/dense_layout.h"

namespace sida {

uint64_t MemoryPlan::slots_in(uint64_t budget) const {
  if (budget < smallest()) {
    throw Error("budget_too_small",
                "a budget of " + std::to_string(budget) + " bytes is below the smallest workable one of " +
                    std::to_string(smallest()) + " bytes (" +
                    (driver > 0 ? "the GPU's driver " + std::to_string(driver) + ", " : "") +
                    "dense weights and routers " + std::to_string(dense + routers) + ", KV cache " +
                    std::to_string(kv_cache) + ", workspace " + std::to_string(workspace) + ", one expert " +
                    std::to_string(slot) + "); raise the budget, or lower --max-batch-tokens and --kv-tokens",
                {{"budget_bytes", static_cast<double>(budget)}, {"needed_bytes", static_cast<double>(smallest())}});
  }
  return std::min(experts, (budget - fixed()) / slot);
}

BatchLimits fit_limits(const ModelSpec& spec, BatchLimits limits) {
  limits.max_routing_k = std::max(limits.max_routing_k, spec.top_k());
  return limits;
}

namespace {

/// Inputs of the widest product.
size_t widest_product(const ModelSpec& spec) {
  const LayerWidths widths(spec);
  return std::max({spec.width, widths.query, widths.value, widths.dense, widths.expert});
}

/// Other processors than x86 flush small numbers by other rules, and answers must not depend on the machine.
void check_bf16() {
#if !defined(__x86_64__)
  throw Error("invalid_request", "bf16 activations need an x86-64 processor");
#endif
}

void check_kv(const ModelSpec& spec, const BatchLimits& limits) {
  if (limits.kv != KvFormat::kQ8_0) return;
  if (limits.device != DeviceKind::kCpu) {
    throw Error("invalid_request", "a KV cache of q8_0 needs the cpu device; the cuda device takes f32 and bf16");
  }
  std::vector<size_t> widths;
  for (const LayerSpec& layer : spec.last().layers) {
    if (layer.delta) continue;
    const auto& latent = layer.self.latent;
    const auto own = latent ? std::vector{latent->rank, latent->rotary} : std::vector{layer.self.head_dim};
    widths.insert(widths.end(), own.begin(), own.end());
  }
  for (const size_t width : widths) {
    if (width % kKvBlock == 0) continue;
    throw Error("invalid_request", "a KV cache of q8_0 has blocks of 32 columns, which heads of " +
                                       std::to_string(width) + " columns are no multiple of; choose bf16");
  }
}

void check_limits(const ModelSpec& spec, const BatchLimits& limits) {
  check_kv(spec, limits);
  if (spec.experts() > 0 && limits.max_routing_k > spec.experts()) {
    throw Error("invalid_request", "a routing of " + std::to_string(limits.max_routing_k) +
                                       " experts a token exceeds the " + std::to_string(spec.experts()) +
                                       " experts of a layer");
  }
  if (limits.activations == ActivationFormat::kF32) return;
  if (limits.activations == ActivationFormat::kBf16) {
    if (limits.device != DeviceKind::kCpu) throw Error("invalid_request", "bf16 activations need the cpu device");
    return check_bf16();
  }
  if (const size_t widest = widest_product(spec); widest > kMaxInt8Inputs) {
    throw Error("invalid_request", "activations of int8: a product over " + std::to_string(widest) +
                                       " inputs exceeds " + std::to_string(kMaxInt8Inputs) +
                                       ", where its integer sums may overflow");
  }
}

}  // namespace

MemoryPlan plan_memory(const Pack& pack, const BatchLimits& wanted) {
  const ModelSpec& spec = pack.spec;
  const BatchLimits limits = fit_limits(spec, wanted);
  check_limits(spec, limits);
  const DenseLayout held = limits.routers ? pack.dense : without_routers(pack.dense);
  const auto taken = limits.device == DeviceKind::kCuda ? gpu_bytes : device_bytes;
  MemoryPlan plan;
  plan.routers = held.router_bytes;
  plan.dense = taken(held.bytes) - plan.routers;
  plan.kv_cache = taken(KvCache::bytes(KvShape::of(spec, limits.kv), KvRoom(limits)));
  plan.workspace = taken(workspace_bytes(spec, limits));
  if (limits.device == DeviceKind::kCpu) plan.workspace += device_bytes(LogitRows::bytes(spec.logit_columns()));
  plan.host_workspace = HostExperts::bytes(pack.experts, limits);
  plan.slot = taken(pack.experts.slot_bytes);
  plan.block = device_bytes(pack.experts.slot_bytes);
  for (const BlockLayout& layer : pack.experts.layers) plan.block_bytes.push_back(layer.bytes);
  plan.layer_experts = spec.layer_experts();
  plan.experts = pack.experts.experts();
  size_t layers = 0;
  for (const StackSpec& stack : spec.stacks) layers = std::max(layers, stack.layers.size());
  plan.driver = driver_bytes(limits.device, plan.block * plan.experts, limits.runs_alone() ? layers : 0);
  if (limits.device == DeviceKind::kCuda && limits.device_predictor) {
    plan.driver += spec.stacks.size() * kDeviceNetworkBytes;
  }
  plan.context = spec.context;
  plan.token_dense = plan.dense + plan.routers;
  for (const DenseTensor& tensor : held.tensors) {
    if (tensor.slot.role == TensorRole::kEmbedding && !spec.head.tied) plan.token_dense -= tensor.bytes;
  }
  plan.token_demand = spec.moe_layer_count() * spec.top_k();
  return plan;
}

MemoryPlan plan_memory(const ModelSpec& spec, WeightFormat experts, WeightFormat dense, const BatchLimits& limits) {
  return plan_memory(describe_pack("", spec, experts, dense), limits);
}

}  // namespace sida
