#include "ops/cpu/rounded_rows.h"

#include <algorithm>

namespace sida {
namespace {

// Below this many floats the calling thread alone is faster.
constexpr size_t kInlineFloats = 16 * 1024;

size_t line(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Rows a multiple of 4 KiB apart would compete for the same lines of the L1 cache.
size_t stride_of(size_t k, WeightFormat format) {
  return line(format.type == WeightType::kBf16 ? k * sizeof(uint16_t) : k) + 64;
}

size_t groups_of(size_t k, WeightFormat format) {
  const size_t group = scaled_inputs(format);
  return grouped(format.type) ? (k + group - 1) / group : 0;
}

}  // namespace

size_t rounded_bytes(size_t rows, size_t k, WeightFormat format) {
  return rows * stride_of(k, format) + line(rows * sizeof(float)) +
         line(rows * groups_of(k, format) * sizeof(int32_t));
}

RoundedRows rounded_rows(std::byte* memory, size_t rows, size_t k, WeightFormat format) {
  std::byte* scales = memory + rows * stride_of(k, format);
  std::byte* sums = scales + line(rows * sizeof(float));
  return {reinterpret_cast<uint8_t*>(memory), stride_of(k, format), reinterpret_cast<float*>(scales),
          reinterpret_cast<int32_t*>(sums), groups_of(k, format)};
}

void round_rows(ThreadPool& pool, const RoundTask& task, const RoundedRows& out) {
  const size_t chunks = task.rows * task.k < kInlineFloats ? 1 : std::min(task.rows, pool.threads() * 4);
  pool.parallel_for(chunks, [&](size_t chunk, size_t) {
    const size_t begin = task.rows * chunk / chunks;
    RoundTask part = task;
    part.x += begin * task.x_stride;
    part.rows = task.rows * (chunk + 1) / chunks - begin;
    cpu_kernels().round_rows(part, out.from(begin));
  });
}

}  // namespace sida
