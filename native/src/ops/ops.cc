#include "ops/ops.h"

namespace sida {
namespace {

void norm_heads(Ops& ops, const HeadsTask& task, const float* weight, size_t heads, float* x) {
  const AttentionSpec& spec = *task.spec;
  if (spec.qk_norm == QkNorm::kNone) return;
  const bool row = spec.qk_norm == QkNorm::kRow;
  ops.norm(x, {weight}, task.epsilon, row ? task.tokens : task.tokens * heads,
           row ? heads * spec.head_dim : spec.head_dim, x);
}

}  // namespace

void Ops::prepare_heads(const HeadsTask& task) {
  const AttentionSpec& spec = *task.spec;
  const Activations& a = activations();
  norm_heads(*this, task, task.weights->query_norm, spec.heads, a.queries);
  norm_heads(*this, task, task.weights->key_norm, spec.kv_heads, a.keys);
  if (spec.clip) {
    clip(a.queries, task.tokens * spec.query_width(), *spec.clip);
    clip(a.keys, task.tokens * spec.kv_width(), *spec.clip);
    clip(a.values, task.tokens * spec.kv_width(), *spec.clip);
  }
  if (task.rotated) {
    rotate(a.queries, spec.heads, spec.head_dim, spec.rope);
    rotate(a.keys, spec.kv_heads, spec.head_dim, spec.rope);
  }
  write_kv(task.cache_layer);
}

}  // namespace sida
