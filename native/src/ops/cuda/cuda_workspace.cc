#include "ops/cuda/cuda_workspace.h"

#include <algorithm>

#include "kv/page_pool.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/pass_uploads.h"
#include "ops/cuda/rounded.h"
#include "spec/layer_widths.h"
#include "spec/relative_position.h"
#include "weights/expert_shape.h"

namespace sida {
namespace {

// Alignment for tensor cores and vector loads.
constexpr size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

/// Hands out memory from `base` on. Where `base` is null it only counts bytes.
struct CudaWorkspace::Arena {
  std::byte* base = nullptr;
  size_t used = 0;
  size_t most = 0;

  template <class T>
  void take(T*& pointer, size_t count) {
    pointer = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used += aligned(count * sizeof(T));
    most = std::max(most, used);
  }
};

size_t bias_positions(const StackSpec& stack, const BatchLimits& limits) {
  return stack.causal ? pages_for(limits.kv_tokens) * kPageTokens : limits.max_batch_tokens;
}

size_t max_choices(const ModelSpec& spec, const BatchLimits& limits) {
  return std::max(limits.max_routing_k, spec.top_k());
}

void CudaWorkspace::lay_out(Arena& arena, const ModelSpec& spec, const BatchLimits& limits) {
  const LayerWidths widths(spec);
  const size_t tokens = limits.max_batch_tokens, choices = tokens * max_choices(spec, limits);
  arena.take(activations.hidden, tokens * spec.width);
  arena.take(activations.normed, tokens * spec.width);
  arena.take(activations.branch, tokens * widths.branch);
  arena.take(arrived, 1);
  biases.assign(spec.stacks.size(), nullptr);
  for (size_t i = 0; i < spec.stacks.size(); ++i) {
    const StackSpec& stack = spec.stacks[i];
    if (!std::holds_alternative<RelativeBias>(stack.positions)) continue;
    arena.take(biases[i], PositionBias::floats(stack.attention().heads, bias_positions(stack, limits)));
  }
  upload_bytes = PassUploads::bytes(spec, limits);
  arena.take(uploads, upload_bytes);
  const bool alone = limits.runs_alone();
  arena.take(expert_table, alone ? cuda::table_bytes(expert_shape_of(spec).experts()) : 0);
  const size_t listed = alone && spec.moe() != nullptr ? kMostDeviceChoices : 0;
  arena.take(device_choices.expert, listed);
  arena.take(device_choices.alpha, listed);
  arena.take(device_choices.order, listed);
  arena.take(device_choices.positions, listed);
  arena.take(device_choices.alphas, listed);
  arena.take(device_choices.moves, listed > 0 ? cuda::kMostMoves : 0);
  arena.take(device_choices.move_count, std::min<size_t>(listed, 2));
  std::byte* products;
  arena.take(products, listed > 0 ? cuda::listed_products_bytes() : 0);
  device_choices.products = reinterpret_cast<cuda::ProductRows*>(products);
  const bool int8 = limits.activations == ActivationFormat::kInt8;
  const size_t widest = std::max({spec.width, widths.query, widths.value, widths.dense});
  arena.take(rounded, int8 ? cuda::rounded_bytes(std::max(tokens, kMaxLogitRows), widest) : 0);
  arena.take(rounded_hidden, int8 ? cuda::rounded_bytes(choices, widths.expert) : 0);

  const size_t shared = arena.used;
  arena.take(activations.queries, tokens * widths.query);
  arena.take(activations.keys, tokens * widths.key);
  arena.take(activations.values, tokens * widths.value);
  const size_t latent = kLatentTiles * cuda::kTileRows * widths.latent_heads;
  arena.take(latent_queries, latent);
  arena.take(latent_outputs, latent);

  arena.used = shared;
  const MoeSpec* moe = spec.moe();
  const bool routers = moe != nullptr && limits.routers;
  arena.take(router, routers ? tokens * moe->experts : 0);
  arena.take(gates, tokens * widths.gates);
  arena.take(up, std::max(tokens * widths.dense, choices * widths.expert));
  arena.take(outputs, moe == nullptr ? 0 : choices * spec.width);

  arena.used = shared;
  arena.take(head_rows, kMaxLogitRows * spec.width);
  arena.take(logits, kMaxLogitRows * spec.logit_columns());
}

uint64_t CudaWorkspace::bytes(const ModelSpec& spec, const BatchLimits& limits) {
  Arena arena;
  CudaWorkspace().lay_out(arena, spec, limits);
  return arena.most;
}

CudaWorkspace::CudaWorkspace(DeviceMemory& device, const ModelSpec& spec, const BatchLimits& limits)
    : memory(device, bytes(spec, limits)) {
  Arena arena{memory.data()};
  lay_out(arena, spec, limits);
}

}  // namespace sida
