#include <algorithm>

#include "core/profile.h"
#include "ops/cpu/cpu_ops.h"

namespace sida {

void CpuOps::write_kv(size_t cache_layer) {
  const size_t width = cache_.layer(cache_layer).heads * cache_.layer(cache_layer).head_dim;
  for (const SequenceSpan& s : sequences_) {
    share(s.count, s.count * width, [&](size_t begin, size_t end) {
      const size_t row = (s.begin + begin) * width;
      cache_.write_keys(*s.pages, cache_layer, s.past + begin, work_.keys + row, end - begin);
      cache_.write_values(*s.pages, cache_layer, s.past + begin, work_.values + row, end - begin);
    });
  }
}

void CpuOps::attend(const AttendTask& task) {
  const ProfileScope scope(ProfileOp::kAttend);
  split_attention(task);
  pool_.parallel_for(attention_parts_.size(),
                     [&](size_t part, size_t thread) { run_attention(task, attention_parts_[part], thread); });
}

void CpuOps::split_attention(const AttendTask& task) {
  constexpr size_t kRows = CpuWorkspace::kAttentionRows;
  attention_parts_.clear();
  const AttentionSpec& spec = *task.spec;
  // Heads that share keys are computed together, so that the keys are read once. With a bias each head is by itself,
  // because the bias differs by head.
  const size_t shared = task.biased ? 1 : spec.heads / spec.kv_heads;
  for (const SequenceSpan& sequence : sequences_) {
    const bool by_head = sequence.count == 1 && shared > 1;
    for (size_t head = 0; head < spec.heads; head += by_head ? shared : 1) {
      for (size_t row = 0; row < sequence.count; row += kRows) {
        const size_t rows = by_head ? shared : std::min(kRows, sequence.count - row);
        attention_parts_.push_back({&sequence, head, row, rows, by_head});
      }
    }
  }
}

void CpuOps::run_attention(const AttendTask& attend, const AttentionPart& part, size_t thread) {
  const AttentionSpec& spec = *attend.spec;
  const SequenceSpan& sequence = *part.sequence;
  const size_t kv_head = part.head / (spec.heads / spec.kv_heads);
  const KvPages& pages = attend.cross ? *sequence.parent_pages : *sequence.pages;
  const PageRun& run = pages[cache_.group_of(attend.cache_layer)];
  auto& pointers = page_pointers_[thread];
  pointers.assign(run.first, nullptr);
  for (const uint32_t page : run.ids) pointers.push_back(cache_.keys(page, attend.cache_layer, kv_head));
  pointers.resize(run.end() + run.first, nullptr);
  for (const uint32_t page : run.ids) pointers.push_back(cache_.values(page, attend.cache_layer, kv_head));
  const size_t position = sequence.past + part.row;
  float* q = work_.queries + (sequence.begin + part.row) * spec.query_width() + part.head * spec.head_dim;
  AttentionTask task{};
  task.q = q;
  task.q_stride = part.by_head ? spec.head_dim : spec.query_width();
  task.rows = part.rows;
  task.head_dim = spec.head_dim;
  task.head_dim_padded = cache_.layer(attend.cache_layer).head_dim_padded();
  task.key_pages = pointers.data();
  task.value_pages = pointers.data() + run.end();
  task.key_count = attend.cross ? sequence.parent_keys : attend.causal ? position + 1 : sequence.past + sequence.count;
  task.causal_step = attend.causal && !part.by_head ? 1 : 0;
  task.window = spec.window.value_or(SIZE_MAX);
  task.scale = spec.scale;
  if (attend.sinks != nullptr) task.sinks = attend.sinks + part.head;
  task.sink_step = part.by_head ? 1 : 0;
  task.bias = attend.biased ? biases_[stack_]->head(part.head) - position : nullptr;
  task.out = q;
  task.out_stride = task.q_stride;
  task.scratch = work_.scores + thread * kScoreRows * work_.score_stride;
  task.score_stride = work_.score_stride;
  task.format = cache_.shape().format;
  cpu_kernels().attention(task);
}

}  // namespace sida
