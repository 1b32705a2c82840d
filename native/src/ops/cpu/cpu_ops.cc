#include "ops/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "core/profile.h"
#include "ops/rotary_table.h"
#include "ops/sinusoid_row.h"

namespace sida {
namespace {

// A cosine costs about as much as eight floats of the other ops.
constexpr size_t kFloatsOfCosine = 8;

}  // namespace

CpuOps::CpuOps(const ModelSpec& spec, const ModelWeights& weights, DeviceMemory& memory, KvCache& cache,
               const BatchLimits& limits)
    : spec_(spec),
      work_(memory, spec, limits),
      cache_(cache),
      pool_(limits.threads),
      activations_{work_.hidden, work_.normed, work_.branch, work_.queries, work_.keys, work_.values},
      page_pointers_(pool_.threads()) {
  for (auto& pointers : page_pointers_) pointers.reserve(2 * cache.pages());
  for (size_t i = 0; i < spec.stacks.size(); ++i) {
    biases_.emplace_back();
    if (work_.biases[i] == nullptr) continue;
    const StackSpec& stack = spec.stacks[i];
    biases_.back().emplace(std::get<RelativeBias>(stack.positions), stack.attention().heads,
                           weights.stacks[i].position_bias, !stack.causal, work_.bias_positions[i], work_.biases[i]);
  }
}

void CpuOps::start(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens) {
  stack_ = stack;
  tokens_ = tokens;
  sequences_ = sequences;
  for (size_t at = 0; at < spec_.stacks[stack].ropes(); ++at) {
    const Rope& rope = spec_.stacks[stack].rope(at);
    const size_t width = rope.width();
    float* table = rotary_table(at);
    for (const SequenceSpan& sequence : sequences) {
      share(sequence.count, sequence.count * width * kFloatsOfCosine, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          float* row = table + (sequence.begin + i) * width;
          rotary_row(rope, sequence.past + i, row, row + width / 2);
        }
      });
    }
  }
}

float* CpuOps::rotary_table(size_t rope) {
  float* table = work_.rotary;
  for (size_t i = 0; i < rope; ++i) table += tokens_ * spec_.stacks[stack_].rope(i).width();
  return table;
}

void CpuOps::embed(const PanelMatrix& embedding, std::span<const int32_t> tokens, float scale) {
  const ProfileScope scope(ProfileOp::kEmbed);
  for (size_t i = 0; i < tokens.size(); ++i) {
    read_panel_row(embedding, static_cast<size_t>(tokens[i]), work_.hidden + i * spec_.width);
  }
  if (scale != 1) cpu_kernels().scale(scale, work_.hidden, tokens.size() * spec_.width);
}

void CpuOps::add_row(const float* row, size_t tokens) {
  const size_t width = spec_.width;
  for (size_t i = 0; i < tokens; ++i) cpu_kernels().axpy(1, row, width, work_.hidden + i * width);
}

void CpuOps::add_positions(const Sinusoids& sinusoids, std::span<const uint32_t> positions) {
  const ProfileScope scope(ProfileOp::kEmbed);
  share(positions.size(), positions.size() * spec_.width * kFloatsOfCosine, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (positions[i] != 0) add_sinusoid_row(sinusoids, positions[i], work_.hidden + i * spec_.width);
    }
  });
}

void CpuOps::norm(const float* x, const NormWeights& weights, float epsilon, size_t rows, size_t width, float* y) {
  const ProfileScope scope(ProfileOp::kNorm);
  const CpuKernels& kernels = cpu_kernels();
  share(rows, rows * width, [&](size_t begin, size_t end) {
    const float* from = x + begin * width;
    float* to = y + begin * width;
    if (weights.bias == nullptr) {
      kernels.rms_norm(from, weights.weight, epsilon, end - begin, width, to);
    } else {
      kernels.layer_norm(from, weights.weight, weights.bias, epsilon, end - begin, width, to);
    }
  });
}

void CpuOps::linear(const float* x, size_t rows, std::span<const Product> products, Epilogue epilogue) {
  outputs_.clear();
  for (const Product& product : products) outputs_.push_back({product.w, product.y, product.w.n});
  sida::linear(pool_, x, products.front().w.k, rows, outputs_, epilogue, work_.rounded);
}

void CpuOps::clip(float* x, size_t count, float limit) {
  share_floats(count, [&](size_t begin, size_t end) { cpu_kernels().clip(x + begin, end - begin, limit); });
}

void CpuOps::clear(float* x, size_t count) { std::memset(x, 0, count * sizeof(float)); }

void CpuOps::add(const float* x, size_t count, float* y) {
  share_floats(count, [&](size_t begin, size_t end) { cpu_kernels().axpy(1, x + begin, end - begin, y + begin); });
}

void CpuOps::scale(float* x, size_t count, const float* factor) {
  share_floats(count, [&](size_t begin, size_t end) { cpu_kernels().scale(*factor, x + begin, end - begin); });
}

void CpuOps::rotate(float* x, size_t heads, size_t head_dim, size_t rope_at) {
  const Rope& rope = spec_.stacks[stack_].rope(rope_at);
  const size_t width = rope.width();
  const float* table = rotary_table(rope_at);
  const auto turn = rope.adjacent ? cpu_kernels().rotate_adjacent : cpu_kernels().rotate;
  share(tokens_, tokens_ * heads * head_dim, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const float* cosines = table + i * width;
      turn(x + i * heads * head_dim, heads, head_dim, width / 2, cosines, cosines + width / 2);
    }
  });
}

void CpuOps::logits(const PanelMatrix& head, std::span<const int32_t> rows, const HeadSpec& spec, float* out) {
  const size_t width = spec_.width;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* state = work_.normed + static_cast<size_t>(rows[i]) * width;
    for (size_t j = 0; j < width; ++j) work_.queries[i * width + j] = state[j] * spec.scale;
  }
  sida::linear(pool_, work_.queries, width, rows.size(), head, out, head.n, Epilogue::kStore, work_.rounded);
  if (!spec.cap) return;
  share_floats(rows.size() * head.n,
               [&](size_t begin, size_t end) { cpu_kernels().soft_cap(out + begin, end - begin, *spec.cap); });
}

void CpuOps::states(size_t tokens, float* out) { std::memcpy(out, work_.normed, tokens * spec_.width * sizeof(float)); }

}  // namespace sida
