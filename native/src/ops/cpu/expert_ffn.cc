#include "ops/cpu/expert_ffn.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sida {
namespace {

// Most experts that one parallel loop works on.
constexpr size_t kMaxGroupExperts = 64;
// Chunks for each thread, so that a late thread delays the others by a small part only.
constexpr size_t kChunksPerThread = 8;
// Work of the smallest chunk, in bytes of weights and multiply-adds: handing over less costs more than the work.
constexpr size_t kSmallestChunk = 32 * 1024;

/// Rows [begin, begin + rows) of an expert, at row `at` of the scratch.
struct Part {
  const ExpertRows* expert;
  size_t begin;
  size_t rows;
  size_t at;
};

class Batch {
 public:
  explicit Batch(size_t max_rows) : max_rows_(max_rows) {}

  bool full() const { return count_ == kMaxGroupExperts || rows_ == max_rows_; }
  bool empty() const { return count_ == 0; }
  size_t rows() const { return rows_; }
  std::span<const Part> parts() const { return {parts_.data(), count_}; }

  /// Adds as many of an expert's rows from `begin` on as fit, and returns their number.
  size_t add(const ExpertRows& expert, size_t begin) {
    const size_t rows = std::min(expert.rows - begin, max_rows_ - rows_);
    parts_[count_++] = {&expert, begin, rows, rows_};
    rows_ += rows;
    return rows;
  }
  void clear() { count_ = rows_ = 0; }

 private:
  size_t max_rows_;
  size_t count_ = 0;
  size_t rows_ = 0;
  std::array<Part, kMaxGroupExperts> parts_;
};

/// Shares the panels of all parts among the threads, in chunks of about equal work. A chunk takes its panels from
/// `matrices` matrices of the size of `matrix`.
template <class Run>
void share_panels(ThreadPool& pool, std::span<const Part> parts, PanelMatrix ExpertRows::*matrix, size_t matrices,
                  const Run& run) {
  std::array<uint32_t, kMaxGroupExperts + 1> first{};
  const auto work = [&](const Part& part) {
    const PanelMatrix& w = part.expert->*matrix;
    // With few rows, reading the weights dominates the cost.
    return matrices * w.panels() * panel_bytes(w.k, w.format) / 4 * std::max<size_t>(part.rows, 4);
  };
  size_t total = 0;
  for (const Part& part : parts) total += work(part);
  const size_t chunks = pool.threads() == 1 ? 1 : pool.threads() * kChunksPerThread;
  const size_t chunk = std::max(kSmallestChunk, total / chunks + 1);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t wanted = (work(parts[i]) + chunk - 1) / chunk;
    first[i + 1] = first[i] + static_cast<uint32_t>(std::clamp<size_t>(wanted, 1, (parts[i].expert->*matrix).panels()));
  }
  const uint32_t tasks = first[parts.size()];
  const auto task = [&](size_t index, size_t) {
    const auto after = std::upper_bound(first.begin(), first.begin() + static_cast<ptrdiff_t>(parts.size()), index);
    const size_t i = static_cast<size_t>(after - first.begin()) - 1;
    const size_t of = first[i + 1] - first[i], panels = (parts[i].expert->*matrix).panels();
    const size_t chunk_index = index - first[i];
    run(i, panels * chunk_index / of, panels * (chunk_index + 1) / of);
  };
  if (total < 2 * kSmallestChunk) {
    for (uint32_t i = 0; i < tasks; ++i) task(i, 0);
  } else {
    pool.parallel_for(tasks, task);
  }
}

/// A part's rows one after the other: in `x` itself, or copied to the scratch memory.
const float* gather(const Part& part, const float* x, size_t k, size_t width, float* inputs) {
  if (part.expert->order == nullptr) return x + part.begin * width;
  const uint32_t* order = part.expert->order + part.begin;
  bool in_place = true;
  for (size_t i = 1; i < part.rows; ++i) in_place = in_place && order[i] / k == order[0] / k + i;
  if (in_place) return x + order[0] / k * width;
  float* target = inputs + part.at * width;
  for (size_t i = 0; i < part.rows; ++i) {
    std::memcpy(target + i * width, x + order[i] / k * width, width * sizeof(float));
  }
  return target;
}

void multiply(const GemmTask& task, const RoundedRows* codes) {
  if (codes != nullptr) {
    cpu_kernels().gemm_rounded(task, *codes);
  } else {
    cpu_kernels().gemm(task);
  }
}

/// Scales a part's hidden layer, and thereby its outputs.
void scale_rows(ThreadPool& pool, const Part& part, size_t hidden, const ExpertScratch& scratch) {
  const float* scales = part.expert->scales;
  if (scales == nullptr) return;
  pool.parallel_for(part.rows, [&](size_t row, size_t) {
    float* at = scratch.hidden + (part.at + row) * scratch.hidden_stride;
    cpu_kernels().scale(scales[part.begin + row], at, hidden);
  });
}

void run_batch(ThreadPool& pool, const Batch& batch, const float* x, size_t k, Activation activation,
               const ExpertScratch& scratch, Epilogue epilogue) {
  const std::span<const Part> parts = batch.parts();
  const ExpertRows& some = *parts.front().expert;
  const WeightFormat format = some.up.format;
  const size_t width = some.up.k, hidden = some.up.n, stride = scratch.hidden_stride;
  const bool has_gate = gated(activation);
  // Gate and up share the rounded rows.
  const bool rounded = takes_rounded(format, scratch.rounded) && (!has_gate || some.gate.format == format);
  const bool down_rounded = takes_rounded(some.down.format, scratch.rounded);

  std::array<const float*, kMaxGroupExperts> inputs;
  for (size_t i = 0; i < parts.size(); ++i) inputs[i] = gather(parts[i], x, k, width, scratch.inputs);
  RoundedRows codes{};
  if (rounded) {
    codes = rounded_rows(scratch.rounded.memory, batch.rows(), width, format);
    for (size_t i = 0; i < parts.size(); ++i) {
      round_rows(pool, {inputs[i], width, parts[i].rows, width, format}, codes.from(parts[i].at));
    }
  }
  share_panels(pool, parts, &ExpertRows::up, has_gate ? 2 : 1, [&](size_t i, size_t begin, size_t end) {
    const Part& part = parts[i];
    const RoundedRows rows = rounded ? codes.from(part.at) : codes;
    const auto product = [&](const PanelMatrix& w, Epilogue into) {
      float* y = scratch.hidden + part.at * stride;
      multiply({inputs[i], width, part.rows, w.data, w.format, w.k, w.n, begin, end, y, stride, into, w.bias},
               rounded ? &rows : nullptr);
    };
    if (has_gate) product(part.expert->gate, Epilogue::kStore);
    product(part.expert->up, activation_epilogue(activation));
  });
  for (const Part& part : parts) scale_rows(pool, part, hidden, scratch);
  if (down_rounded) {
    codes = rounded_rows(scratch.rounded.memory, batch.rows(), hidden, some.down.format);
    round_rows(pool, {scratch.hidden, stride, batch.rows(), hidden, some.down.format}, codes);
  }
  share_panels(pool, parts, &ExpertRows::down, 1, [&](size_t i, size_t begin, size_t end) {
    const Part& part = parts[i];
    const PanelMatrix& w = part.expert->down;
    const RoundedRows rows = down_rounded ? codes.from(part.at) : codes;
    const float* from = scratch.hidden + part.at * stride;
    float* y = part.expert->y + part.begin * width;
    multiply({from, stride, part.rows, w.data, w.format, w.k, w.n, begin, end, y, width, epilogue, w.bias},
             down_rounded ? &rows : nullptr);
  });
}

}  // namespace

void expert_ffn(ThreadPool& pool, std::span<const ExpertRows> group, const float* x, size_t k, Activation activation,
                const ExpertScratch& scratch, Epilogue epilogue) {
  const bool f32 = scratch.rounded.activations == ActivationFormat::kF32;
  const size_t most = f32 ? scratch.rows : std::min(scratch.rows, kRoundedRows);
  Batch batch(most);
  for (const ExpertRows& expert : group) {
    for (size_t row = 0; row < expert.rows;) {
      row += batch.add(expert, row);
      if (batch.full()) {
        run_batch(pool, batch, x, k, activation, scratch, epilogue);
        batch.clear();
      }
    }
  }
  if (!batch.empty()) run_batch(pool, batch, x, k, activation, scratch, epilogue);
}

}  // namespace sida
