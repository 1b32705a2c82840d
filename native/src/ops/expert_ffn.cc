#include "ops/expert_ffn.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sida {
namespace {

// Experts whose pieces one loop of the pool shares out.
constexpr size_t kMostExperts = 64;
// Pieces a thread, so that one that is late holds the others up for a small part alone.
constexpr size_t kPiecesPerThread = 8;
// Below this many bytes of weights and multiply-adds, a piece costs less than handing it over.
constexpr size_t kSmallestPiece = 32 * 1024;

/// Rows [begin, begin + rows) of an expert, at row `at` of the scratch.
struct Part {
  const ExpertRows* expert;
  size_t begin;
  size_t rows;
  size_t at;
};

class Batch {
 public:
  explicit Batch(size_t most_rows) : most_rows_(most_rows) {}

  bool full() const { return count_ == kMostExperts || rows_ == most_rows_; }
  bool empty() const { return count_ == 0; }
  size_t rows() const { return rows_; }
  std::span<const Part> parts() const { return {parts_.data(), count_}; }

  /// Takes what fits of an expert's rows from `begin` on and returns how many that were.
  size_t add(const ExpertRows& expert, size_t begin) {
    const size_t rows = std::min(expert.rows - begin, most_rows_ - rows_);
    parts_[count_++] = {&expert, begin, rows, rows_};
    rows_ += rows;
    return rows;
  }
  void clear() { count_ = rows_ = 0; }

 private:
  size_t most_rows_;
  size_t count_ = 0;
  size_t rows_ = 0;
  std::array<Part, kMostExperts> parts_;
};

/// What of a layer's loop is shared: each part's panels in pieces of about equal work.
template <class Run>
void share_panels(ThreadPool& pool, std::span<const Part> parts, const PanelMatrix ExpertRows::*matrix,
                  const Run& run) {
  std::array<uint32_t, kMostExperts + 1> first{};
  const auto work = [&](const Part& part) {
    const PanelMatrix& w = part.expert->*matrix;
    // Few rows cost what reading the weights costs.
    return w.panels() * panel_bytes(w.k, w.format) / 4 * std::max<size_t>(part.rows, 4);
  };
  size_t total = 0;
  for (const Part& part : parts) total += work(part);
  const size_t pieces = pool.threads() == 1 ? 1 : pool.threads() * kPiecesPerThread;
  const size_t piece = std::max(kSmallestPiece, total / pieces + 1);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t wanted = (work(parts[i]) + piece - 1) / piece;
    first[i + 1] =
        first[i] + static_cast<uint32_t>(std::clamp<size_t>(wanted, 1, (parts[i].expert->*matrix).panels()));
  }
  const uint32_t tasks = first[parts.size()];
  const auto task = [&](size_t index, size_t) {
    const size_t i =
        static_cast<size_t>(
            std::upper_bound(first.begin(), first.begin() + static_cast<ptrdiff_t>(parts.size()), index) -
            first.begin()) -
        1;
    const size_t of = first[i + 1] - first[i], panels = (parts[i].expert->*matrix).panels();
    const size_t piece_index = index - first[i];
    run(parts[i], panels * piece_index / of, panels * (piece_index + 1) / of);
  };
  if (total < 2 * kSmallestPiece) {
    for (uint32_t i = 0; i < tasks; ++i) task(i, 0);
  } else {
    pool.parallel_for(tasks, task);
  }
}

/// Where a part's rows lie one after the other: in `x` itself, or copied to the scratch.
const float* gather(const Part& part, const float* x, size_t k, size_t d, float* inputs) {
  const uint32_t* order = part.expert->order + part.begin;
  bool in_place = true;
  for (size_t i = 1; i < part.rows; ++i) in_place = in_place && order[i] / k == order[0] / k + i;
  if (in_place) return x + order[0] / k * d;
  float* target = inputs + part.at * d;
  for (size_t i = 0; i < part.rows; ++i) std::memcpy(target + i * d, x + order[i] / k * d, d * sizeof(float));
  return target;
}

void run_batch(ThreadPool& pool, const Batch& batch, const float* x, size_t k, const ExpertScratch& scratch) {
  const CpuKernels& kernels = cpu_kernels();
  const std::span<const Part> parts = batch.parts();
  const PanelMatrix& some_wi = parts.front().expert->wi;
  const PanelMatrix& some_wo = parts.front().expert->wo;
  const size_t d = some_wi.k, ff = some_wi.n;
  const bool int8 = in_int8(some_wi.format, scratch.int8);

  std::array<const float*, kMostExperts> inputs;
  for (size_t i = 0; i < parts.size(); ++i) inputs[i] = gather(parts[i], x, k, d, scratch.inputs);
  QuantizedRows codes{};
  if (int8) {
    codes = quantized_rows(scratch.int8.data(), batch.rows(), d, some_wi.format);
    for (size_t i = 0; i < parts.size(); ++i) {
      quantize(pool, {inputs[i], d, parts[i].rows, d, some_wi.format}, codes.from(parts[i].at));
    }
  }
  share_panels(pool, parts, &ExpertRows::wi, [&](const Part& part, size_t begin, size_t end) {
    const PanelMatrix& w = part.expert->wi;
    const GemmTask task{inputs[static_cast<size_t>(&part - parts.data())],
                        d,
                        part.rows,
                        w.data,
                        w.format,
                        w.k,
                        w.n,
                        begin,
                        end,
                        scratch.hidden + part.at * scratch.hidden_stride,
                        scratch.hidden_stride,
                        Epilogue::kRelu};
    if (int8) {
      kernels.gemm_int8(task, codes.from(part.at));
    } else {
      kernels.gemm(task);
    }
  });
  if (int8) {
    codes = quantized_rows(scratch.int8.data(), batch.rows(), ff, some_wo.format);
    quantize(pool, {scratch.hidden, scratch.hidden_stride, batch.rows(), ff, some_wo.format}, codes);
  }
  share_panels(pool, parts, &ExpertRows::wo, [&](const Part& part, size_t begin, size_t end) {
    const PanelMatrix& w = part.expert->wo;
    const GemmTask task{scratch.hidden + part.at * scratch.hidden_stride,
                        scratch.hidden_stride,
                        part.rows,
                        w.data,
                        w.format,
                        w.k,
                        w.n,
                        begin,
                        end,
                        part.expert->y + part.begin * d,
                        d,
                        Epilogue::kStore};
    if (int8) {
      kernels.gemm_int8(task, codes.from(part.at));
    } else {
      kernels.gemm(task);
    }
  });
}

}  // namespace

void expert_ffn(ThreadPool& pool, std::span<const ExpertRows> group, const float* x, size_t k,
                const ExpertScratch& scratch) {
  const size_t most = scratch.int8.empty() ? scratch.rows : std::min(scratch.rows, kInt8Rows);
  Batch batch(most);
  for (const ExpertRows& expert : group) {
    for (size_t row = 0; row < expert.rows;) {
      row += batch.add(expert, row);
      if (batch.full()) {
        run_batch(pool, batch, x, k, scratch);
        batch.clear();
      }
    }
  }
  if (!batch.empty()) run_batch(pool, batch, x, k, scratch);
}

}  // namespace sida
