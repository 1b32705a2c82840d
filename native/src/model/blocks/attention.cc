#include "model/blocks/attention.h"

#include "core/profile.h"

namespace sida {
namespace {

void norm_heads(Ops& ops, QkNorm kind, const float* weight, float* x, size_t tokens, size_t heads, size_t head_dim) {
  if (kind == QkNorm::kNone) return;
  const bool row = kind == QkNorm::kRow;
  ops.norm(x, weight, row ? tokens : tokens * heads, row ? heads * head_dim : head_dim, x);
}

void condition_queries_and_keys(Ops& ops, const StackSpec& stack, const AttentionSpec& spec,
                                const AttentionWeights& weights, size_t tokens) {
  const Activations& a = ops.activations();
  norm_heads(ops, spec.qk_norm, weights.query_norm, a.queries, tokens, spec.heads, spec.head_dim);
  norm_heads(ops, spec.qk_norm, weights.key_norm, a.keys, tokens, spec.kv_heads, spec.head_dim);
  if (spec.clip) {
    ops.clip(a.queries, tokens * spec.query_width(), *spec.clip);
    ops.clip(a.keys, tokens * spec.kv_width(), *spec.clip);
    ops.clip(a.values, tokens * spec.kv_width(), *spec.clip);
  }
  if (std::holds_alternative<Rope>(stack.positions)) {
    ops.rotate(a.queries, spec.heads, spec.head_dim);
    ops.rotate(a.keys, spec.kv_heads, spec.head_dim);
  }
}

void add_output(Ops& ops, const AttentionWeights& weights, size_t tokens) {
  const Activations& a = ops.activations();
  const Product output{weights.output, a.hidden};
  ops.linear(a.queries, tokens, {&output, 1}, Epilogue::kAdd);
}

}  // namespace

void self_attention(Ops& ops, const StackSpec& stack, const AttentionSpec& spec, const AttentionWeights& weights,
                    size_t width, size_t cache_layer, size_t tokens) {
  const ProfileScope scope(ProfileOp::kSelfAttention);
  const Activations& a = ops.activations();
  ops.norm(a.hidden, weights.norm, tokens, width, a.normed);
  const Product products[] = {{weights.query, a.queries}, {weights.key, a.keys}, {weights.value, a.values}};
  ops.linear(a.normed, tokens, products, Epilogue::kStore);
  condition_queries_and_keys(ops, stack, spec, weights, tokens);
  ops.write_kv(cache_layer);
  const bool biased = std::holds_alternative<RelativeBias>(stack.positions);
  ops.attend({&spec, cache_layer, false, stack.causal, biased});
  add_output(ops, weights, tokens);
}

void cross_attention(Ops& ops, const AttentionSpec& spec, const AttentionWeights& weights, size_t width,
                     size_t cache_layer, size_t tokens) {
  const ProfileScope scope(ProfileOp::kCrossAttention);
  const Activations& a = ops.activations();
  ops.norm(a.hidden, weights.norm, tokens, width, a.normed);
  const Product queries{weights.query, a.queries};
  ops.linear(a.normed, tokens, {&queries, 1}, Epilogue::kStore);
  ops.attend({&spec, cache_layer, true, false, false});
  add_output(ops, weights, tokens);
}

void write_cross_keys(Ops& ops, const AttentionWeights& weights, size_t cache_layer, size_t tokens) {
  const Activations& a = ops.activations();
  const Product products[] = {{weights.key, a.keys}, {weights.value, a.values}};
  ops.linear(a.normed, tokens, products, Epilogue::kStore);
  ops.write_kv(cache_layer);
}

}  // namespace sida
