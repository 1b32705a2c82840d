// Latent attention of CpuOps. The projections from latent rows are applied to a part's queries and outputs, so that the
// cached rows themselves are the keys and values of all heads.
#include <algorithm>
#include <cstring>

#include "core/profile.h"
#include "ops/cpu/cpu_ops.h"

namespace sida {
namespace {

/// y = x · W of rows of any strides.
void multiply(const PanelMatrix& w, const float* x, size_t x_stride, size_t rows, float* y, size_t y_stride) {
  cpu_kernels().gemm(
      {x, x_stride, rows, w.data, w.format, w.k, w.n, 0, w.panels(), y, y_stride, Epilogue::kStore, w.bias});
}

}  // namespace

void CpuOps::write_latent(const LatentSpec& spec, size_t cache_layer) {
  const float* rows = work_.keys;
  const float* rotated = rows + tokens_ * spec.rank;
  for (const SequenceSpan& s : sequences_) {
    for (size_t i = 0; i < s.count; ++i) {
      const size_t position = s.past + i, row = s.begin + i;
      cache_.write_row(*s.pages, cache_layer, position, 0, rows + row * spec.rank, spec.rank);
      cache_.write_row(*s.pages, cache_layer, position, spec.rank, rotated + row * spec.rotary, spec.rotary);
    }
  }
}

void CpuOps::attend_latent(const LatentTask& task) {
  const ProfileScope scope(ProfileOp::kAttend);
  constexpr size_t kRows = CpuWorkspace::kAttentionRows;
  const size_t heads = task.spec->heads;
  attention_parts_.clear();
  for (const SequenceSpan& sequence : sequences_) {
    // All heads see the same rows. The heads of a single token are computed together, so that the rows are read once.
    const bool by_head = sequence.count == 1;
    for (size_t head = 0; head < heads; head += by_head ? kRows : 1) {
      for (size_t row = 0; row < sequence.count; row += kRows) {
        const size_t rows = by_head ? std::min(kRows, heads - head) : std::min(kRows, sequence.count - row);
        attention_parts_.push_back({&sequence, head, row, rows, by_head});
      }
    }
  }
  pool_.parallel_for(attention_parts_.size(),
                     [&](size_t part, size_t thread) { run_latent(task, attention_parts_[part], thread); });
}

void CpuOps::run_latent(const LatentTask& attend, const AttentionPart& part, size_t thread) {
  const AttentionSpec& spec = *attend.spec;
  const LatentSpec& latent = *spec.latent;
  const SequenceSpan& sequence = *part.sequence;
  const size_t stride = cache_.layer(attend.cache_layer).head_dim_padded(), flat = spec.head_dim - latent.rotary;
  float* queries = work_.latent + thread * 2 * CpuWorkspace::kAttentionRows * stride;
  float* outputs = queries + CpuWorkspace::kAttentionRows * stride;
  const size_t first = sequence.begin + part.row;
  const float* q = work_.queries + first * spec.query_width() + part.head * spec.head_dim;
  const size_t q_stride = part.by_head ? spec.head_dim : spec.query_width();
  for (size_t r = 0; r < part.rows; ++r) {
    float* to = queries + r * stride;
    std::memcpy(to + latent.rank, q + r * q_stride + flat, latent.rotary * sizeof(float));
    std::fill(to + latent.row(), to + stride, 0.0f);
    if (part.by_head) multiply(attend.weights->keys[part.head + r], q + r * q_stride, q_stride, 1, to, stride);
  }
  if (!part.by_head) multiply(attend.weights->keys[part.head], q, q_stride, part.rows, queries, stride);

  auto& pointers = page_pointers_[thread];
  pointers.clear();
  const PageRun& run = (*sequence.pages)[cache_.group_of(attend.cache_layer)];
  for (const uint32_t page : run.ids) pointers.push_back(cache_.rows(page, attend.cache_layer));
  LatentAttentionTask task{queries,
                           part.rows,
                           latent.rank,
                           stride,
                           pointers.data(),
                           sequence.past + part.row + 1,
                           part.by_head ? 0u : 1u,
                           spec.scale,
                           outputs,
                           work_.scores + thread * kScoreRows * work_.score_stride,
                           work_.score_stride,
                           cache_.shape().format};
  cpu_kernels().latent_attention(task);

  float* y = work_.values + first * spec.output_width() + part.head * latent.value_dim;
  if (part.by_head) {
    for (size_t r = 0; r < part.rows; ++r) {
      multiply(attend.weights->values[part.head + r], outputs + r * stride, stride, 1, y + r * latent.value_dim,
               latent.value_dim);
    }
  } else {
    multiply(attend.weights->values[part.head], outputs, stride, part.rows, y, spec.output_width());
  }
}

}  // namespace sida
