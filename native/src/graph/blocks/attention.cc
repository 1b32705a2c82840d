#include "graph/blocks/attention.h"

#include "core/profile.h"
#include "graph/blocks/branch.h"
#include "graph/blocks/norm_input.h"

namespace sida {
namespace {

void add_output(Ops& ops, const LayerPlace& at, const AttentionWeights& weights, const float* attended, size_t tokens) {
  const Activations& a = ops.activations();
  const bool normed = weights.post_norm.weight != nullptr;
  const Product output{weights.output, normed ? a.branch : a.hidden};
  ops.linear(attended, tokens, {&output, 1}, normed ? Epilogue::kStore : Epilogue::kAdd);
  if (normed) add_branch(ops, at.model, weights.post_norm, tokens);
}

void latent_attention(Ops& ops, const LayerPlace& at, const AttentionSpec& spec, const AttentionWeights& weights,
                      size_t tokens) {
  const Activations& a = ops.activations();
  const LatentSpec& latent = *spec.latent;
  const LatentWeights& own = weights.latent;
  const Product query_down{own.query_down, a.values}, queries{weights.query, a.queries};
  if (latent.query_rank > 0) {
    ops.linear(a.normed, tokens, {&query_down, 1}, Epilogue::kStore);
    ops.norm(a.values, {own.query_down_norm}, latent.norm_epsilon, tokens, latent.query_rank, a.values);
  }
  ops.linear(latent.query_rank > 0 ? a.values : a.normed, tokens, {&queries, 1}, Epilogue::kStore);
  float* rotated = a.keys + tokens * latent.rank;
  const Product rows[] = {{own.row, a.keys}, {own.rotary, rotated}};
  ops.linear(a.normed, tokens, rows, Epilogue::kStore);
  ops.norm(a.keys, {own.norm}, latent.norm_epsilon, tokens, latent.rank, a.keys);
  ops.rotate(a.queries + spec.head_dim - latent.rotary, spec.heads, spec.head_dim, spec.rope);
  ops.rotate(rotated, 1, latent.rotary, spec.rope);
  ops.write_latent(latent, at.cache_layer);
  ops.attend_latent({&spec, &own, at.cache_layer});
  add_output(ops, at, weights, a.values, tokens);
}

}  // namespace

void self_attention(Ops& ops, const LayerPlace& at, const AttentionSpec& spec, const AttentionWeights& weights,
                    size_t tokens) {
  const ProfileScope scope(ProfileOp::kSelfAttention);
  const Activations& a = ops.activations();
  norm_input(ops, at.model, weights.norm, tokens);
  if (spec.latent) return latent_attention(ops, at, spec, weights, tokens);
  const Product products[] = {{weights.query, a.queries}, {weights.key, a.keys}, {weights.value, a.values}};
  const bool keys_alone = spec.values == Values::kNormedKeys;
  ops.linear(a.normed, tokens, std::span(products).first(keys_alone ? 2 : 3), Epilogue::kStore);
  if (spec.values != Values::kProjected) {
    ops.norm(keys_alone ? a.keys : a.values, {}, at.model.norm_epsilon, tokens * spec.kv_heads, spec.head_dim,
             a.values);
  }
  ops.prepare_heads({&spec, &weights, at.model.norm_epsilon, at.stack.ropes() > 0, at.cache_layer, tokens});
  const bool biased = std::holds_alternative<RelativeBias>(at.stack.positions);
  ops.attend({&spec, at.cache_layer, false, at.stack.causal, biased, weights.sinks});
  if (spec.gated) {
    // Keys are in the cache now.
    const Product gates{weights.gate, a.keys};
    ops.linear(a.normed, tokens, {&gates, 1}, Epilogue::kStore);
    ops.gate(Gate::kSigmoid, a.keys, a.queries, tokens * spec.query_width());
  }
  add_output(ops, at, weights, a.queries, tokens);
}

void delta_attention(Ops& ops, const LayerPlace& at, const DeltaSpec& spec, const AttentionWeights& weights,
                     size_t tokens) {
  const ProfileScope scope(ProfileOp::kSelfAttention);
  const Activations& a = ops.activations();
  const DeltaWeights& own = weights.delta;
  norm_input(ops, at.model, weights.norm, tokens);
  float* betas = a.values + tokens * spec.value_width();
  const Product products[] = {{weights.query, a.keys},   {weights.key, a.keys + tokens * spec.key_width()},
                              {weights.value, a.values}, {weights.gate, a.queries},
                              {own.beta, betas},         {own.decay, betas + tokens * spec.value_heads}};
  ops.linear(a.normed, tokens, products, Epilogue::kStore);
  ops.delta({&spec, &own, at.cache_layer});
  ops.norm(a.values, {own.norm}, at.model.norm_epsilon, tokens * spec.value_heads, spec.value_dim, a.values);
  ops.gate(Gate::kSilu, a.queries, a.values, tokens * spec.value_width());
  add_output(ops, at, weights, a.values, tokens);
}

void cross_attention(Ops& ops, const LayerPlace& at, const AttentionSpec& spec, const AttentionWeights& weights,
                     size_t tokens) {
  const ProfileScope scope(ProfileOp::kCrossAttention);
  const Activations& a = ops.activations();
  norm_input(ops, at.model, weights.norm, tokens);
  const Product queries{weights.query, a.queries};
  ops.linear(a.normed, tokens, {&queries, 1}, Epilogue::kStore);
  ops.attend({&spec, at.cache_layer, true, false, false, weights.sinks});
  add_output(ops, at, weights, a.queries, tokens);
}

void write_cross_keys(Ops& ops, const AttentionWeights& weights, size_t cache_layer, size_t tokens) {
  const Activations& a = ops.activations();
  const Product products[] = {{weights.key, a.keys}, {weights.value, a.values}};
  ops.linear(a.normed, tokens, products, Epilogue::kStore);
  ops.write_kv(cache_layer);
}

}  // namespace sida
