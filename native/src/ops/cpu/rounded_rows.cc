#include "ops/cpu/rounded_rows.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace sida {
namespace {

// Below this many floats the calling thread alone is faster.
constexpr size_t kInlineInputs = 16 * 1024;

size_t line_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Rows a multiple of 4 KiB apart would compete for the same lines of the L1 cache.
size_t stride_of(size_t k, WeightFormat format) {
  return line_bytes(has_bf16(format.type) ? k * sizeof(uint16_t) : k) + 64;
}

size_t groups_of(size_t k, WeightFormat format) {
  if (!grouped(format.type)) return 0;
  const size_t group = scaled_inputs(format);
  return (k + group - 1) / group;
}

}  // namespace

size_t rounded_bytes(size_t rows, size_t k, WeightFormat format) {
  return rows * stride_of(k, format) + line_bytes(rows * sizeof(float)) +
         line_bytes(rows * groups_of(k, format) * sizeof(int32_t));
}

size_t rounded_bytes(size_t rows, size_t k, ActivationFormat activations) {
  switch (activations) {
    case ActivationFormat::kF32:
      return 0;
    case ActivationFormat::kBf16:
      return rounded_bytes(rows, k, kBf16Format);
    case ActivationFormat::kInt8:
      break;
  }
  // No type has more scales, and so more sums.
  return rounded_bytes(rows, k, kQ6_KFormat);
}

RoundedRows rounded_rows(std::span<std::byte> memory, size_t rows, size_t k, WeightFormat format) {
  const size_t bytes = rounded_bytes(rows, k, format);
  if (memory.size() < bytes) {
    throw Error("internal", "rounded rows take " + std::to_string(bytes) + " bytes and have " +
                                std::to_string(memory.size()) + ". This is a bug.");
  }
  std::byte* scales = memory.data() + rows * stride_of(k, format);
  std::byte* sums = scales + line_bytes(rows * sizeof(float));
  return {reinterpret_cast<uint8_t*>(memory.data()), stride_of(k, format), reinterpret_cast<float*>(scales),
          reinterpret_cast<int32_t*>(sums), groups_of(k, format)};
}

void round_rows(ThreadPool& pool, const RoundTask& task, const RoundedRows& out) {
  const size_t chunks = task.rows * task.k < kInlineInputs ? 1 : std::min(task.rows, pool.threads() * 4);
  pool.parallel_for(chunks, [&](size_t chunk, size_t) {
    const size_t begin = task.rows * chunk / chunks;
    RoundTask part = task;
    part.x += begin * task.x_stride;
    part.rows = task.rows * (chunk + 1) / chunks - begin;
    cpu_kernels().round_rows(part, out.from(begin));
  });
}

}  // namespace sida
