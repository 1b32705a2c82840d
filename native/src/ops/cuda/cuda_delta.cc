// Gated delta rules of CudaOps.
#include <cmath>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/delta.h"

namespace sida {

void CudaOps::delta(const DeltaTask& task) {
  const DeltaSpec& spec = *task.spec;
  const cuda::StateLayer layer{cache_.state(0, task.cache_layer), cache_.state_bytes(task.cache_layer) / sizeof(float)};
  const cuda::PagedBatch& batch = own(task.cache_layer);
  const size_t sequences = sequences_.size(), keys = spec.key_width(), values = spec.value_width();
  const size_t kept = spec.taps - 1;
  float* q = work_.activations.keys;
  float* k = q + tokens_ * keys;
  float* v = work_.activations.values;
  cuda::convolve(layer, batch, sequences, {q, task.weights->query_taps, keys, spec.taps, 0}, stream());
  cuda::convolve(layer, batch, sequences, {k, task.weights->key_taps, keys, spec.taps, kept * keys}, stream());
  cuda::convolve(layer, batch, sequences, {v, task.weights->value_taps, values, spec.taps, 2 * kept * keys}, stream());
  const auto length = static_cast<float>(1 / std::sqrt(static_cast<double>(spec.key_dim)));
  cuda::unit_rows(q, tokens_ * spec.key_heads, spec.key_dim, length, stream());
  cuda::unit_rows(k, tokens_ * spec.key_heads, spec.key_dim, 1, stream());
  float* betas = v + tokens_ * values;
  float* decays = betas + tokens_ * spec.value_heads;
  cuda::make_rates({betas, decays, task.weights->decay_bias, task.weights->decay_rate, tokens_, spec.value_heads},
                   stream());
  cuda::delta_rule(layer, batch, sequences,
                   {q, k, v, betas, decays, spec.key_heads, spec.value_heads, spec.key_dim, spec.value_dim,
                    spec.state_stride(), spec.kept_inputs(), spec.tiled},
                   stream());
}

void CudaOps::gate(Gate kind, float* logits, float* x, size_t count) {
  cuda::gate(kind == Gate::kSilu, logits, x, count, stream());
}

}  // namespace sida
