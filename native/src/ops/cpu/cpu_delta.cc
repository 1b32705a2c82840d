// Gated delta rules of CpuOps.
#include <algorithm>
#include <cmath>

#include "core/portable_math.h"
#include "core/profile.h"
#include "ops/cpu/cpu_ops.h"

namespace sida {
namespace {

/// log(1 + exp(x)), beyond 20 x itself, as in transformers.
double softplus(double x) { return x > 20 ? x : portable_log(1 + portable_exp(x)); }

}  // namespace

void CpuOps::delta(const DeltaTask& task) {
  const ProfileScope scope(ProfileOp::kAttend);
  const DeltaSpec& spec = *task.spec;
  float* queries = work_.keys;
  float* keys = queries + tokens_ * spec.key_width();
  const auto state_of = [&](const SequenceSpan& s) {
    return cache_.state((*s.pages)[cache_.group_of(task.cache_layer)].ids.front(), task.cache_layer);
  };
  for (const SequenceSpan& s : sequences_) {
    float* kept = state_of(s);
    const auto convolve = [&](float* x, const float* taps, size_t width) {
      ConvolutionTask all{x + s.begin * width, width, s.count, taps, spec.taps, kept, s.past == 0, 0, width};
      share((width + 15) / 16, s.count * width, [&](size_t begin, size_t end) {
        ConvolutionTask part = all;
        part.begin = begin * 16;
        part.end = std::min(end * 16, width);
        cpu_kernels().convolve(part);
      });
      kept += (spec.taps - 1) * width;
    };
    convolve(queries, task.weights->query_taps, spec.key_width());
    convolve(keys, task.weights->key_taps, spec.key_width());
    convolve(work_.values, task.weights->value_taps, spec.value_width());
  }
  const auto length = static_cast<float>(1 / std::sqrt(static_cast<double>(spec.key_dim)));
  share(tokens_, 2 * tokens_ * spec.key_width(), [&](size_t begin, size_t end) {
    const size_t rows = (end - begin) * spec.key_heads, first = begin * spec.key_width();
    cpu_kernels().unit_rows(queries + first, rows, spec.key_dim, length);
    cpu_kernels().unit_rows(keys + first, rows, spec.key_dim, 1);
  });
  make_rates(task);
  const size_t heads = spec.value_heads;
  const float* betas = work_.values + tokens_ * spec.value_width();
  pool_.parallel_for(sequences_.size() * heads, [&](size_t part, size_t) {
    const SequenceSpan& s = sequences_[part / heads];
    const size_t head = part % heads;
    const size_t key_head = spec.tiled ? head % spec.key_heads : head / (heads / spec.key_heads);
    const size_t key = s.begin * spec.key_width() + key_head * spec.key_dim;
    float* state = state_of(s) + spec.kept_inputs() + head * spec.key_dim * spec.state_stride();
    float* values = work_.values + s.begin * spec.value_width() + head * spec.value_dim;
    const float* beta = betas + s.begin * heads + head;
    cpu_kernels().delta_rule({queries + key, keys + key, spec.key_width(), s.count, spec.key_dim, spec.value_dim,
                              values, spec.value_width(), beta, beta + tokens_ * heads, heads, state,
                              spec.state_stride(), s.past == 0});
  });
}

void CpuOps::make_rates(const DeltaTask& task) {
  const size_t heads = task.spec->value_heads;
  float* betas = work_.values + tokens_ * task.spec->value_width();
  float* decays = betas + tokens_ * heads;
  // An exponential or a logarithm costs about as much as eight floats of the other ops.
  share(tokens_, tokens_ * heads * 32, [&](size_t begin, size_t end) {
    for (size_t i = begin * heads; i < end * heads; ++i) {
      betas[i] = static_cast<float>(1 / (1 + portable_exp(-static_cast<double>(betas[i]))));
      const float step = decays[i] + task.weights->decay_bias[i % heads];
      decays[i] = static_cast<float>(
          portable_exp(static_cast<double>(task.weights->decay_rate[i % heads]) * softplus(static_cast<double>(step))));
    }
  });
}

void CpuOps::gate(Gate kind, float* logits, float* x, size_t count) {
  const auto run = kind == Gate::kSigmoid ? cpu_kernels().gate_sigmoid : cpu_kernels().gate_silu;
  share((count + 15) / 16, count, [&](size_t begin, size_t end) {
    run(logits + begin * 16, x + begin * 16, std::min(count, end * 16) - begin * 16);
  });
}

}  // namespace sida
