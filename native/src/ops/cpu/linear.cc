#include "ops/cpu/linear.h"

#include <algorithm>

namespace sida {
namespace {

// Below this many multiply-adds a loop is faster on one thread than shared with others.
constexpr size_t kInlineWork = 64 * 1024;

/// Whether two products can share the form of x: all f32, or rounded for the same format.
bool alike(const PanelMatrix& a, const PanelMatrix& b, RoundedScratch rounded) {
  if (takes_rounded(a.format, rounded) != takes_rounded(b.format, rounded)) return false;
  return !takes_rounded(a.format, rounded) || a.format == b.format;
}

/// Computes `outputs` from rows in `codes`, or from x where `codes` is null.
void run(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, std::span<const LinearOutput> outputs,
         size_t first_row, Epilogue epilogue, const RoundedRows* codes) {
  const CpuKernels& kernels = cpu_kernels();
  size_t panels = 0, work = 0;
  for (const LinearOutput& output : outputs) {
    panels += output.w.panels();
    work += rows * output.w.k * output.w.n;
  }
  const size_t chunks = work < kInlineWork ? 1 : std::min(panels, pool.threads() * 4);
  pool.parallel_for(chunks, [&](size_t chunk, size_t) {
    size_t begin = panels * chunk / chunks, end = panels * (chunk + 1) / chunks;
    for (const LinearOutput& output : outputs) {
      const PanelMatrix& w = output.w;
      const size_t last = std::min(end, w.panels());
      if (begin < last) {
        float* y = output.y + first_row * output.y_stride;
        const GemmTask task{x,     x_stride, rows, w.data,          w.format, w.k,   w.n,
                            begin, last,     y,    output.y_stride, epilogue, w.bias};
        if (codes != nullptr) {
          kernels.gemm_rounded(task, *codes);
        } else {
          kernels.gemm(task);
        }
      }
      begin -= std::min(begin, w.panels());
      end -= last;
    }
  });
}

}  // namespace

bool takes_rounded(WeightFormat format, RoundedScratch scratch) {
  switch (scratch.activations) {
    case ActivationFormat::kBf16:
      return has_bf16(format.type);
    case ActivationFormat::kInt8:
      return quantized(format);
    case ActivationFormat::kF32:
      break;
  }
  return false;
}

void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, std::span<const LinearOutput> outputs,
            Epilogue epilogue, RoundedScratch rounded) {
  while (!outputs.empty()) {
    const PanelMatrix& w = outputs.front().w;
    const auto other =
        std::find_if(outputs.begin(), outputs.end(), [&](const auto& output) { return !alike(w, output.w, rounded); });
    const auto group = outputs.first(static_cast<size_t>(other - outputs.begin()));
    outputs = outputs.subspan(group.size());
    if (!takes_rounded(w.format, rounded)) {
      run(pool, x, x_stride, rows, group, 0, epilogue, nullptr);
      continue;
    }
    for (size_t row = 0; row < rows; row += kRoundedRows) {
      const size_t count = std::min(kRoundedRows, rows - row);
      const RoundedRows codes = rounded_rows(rounded.memory, count, w.k, w.format);
      const float* begin = x + row * x_stride;
      round_rows(pool, {begin, x_stride, count, w.k, w.format}, codes);
      run(pool, begin, x_stride, count, group, row, epilogue, &codes);
    }
  }
}

void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue, RoundedScratch rounded) {
  const LinearOutput output{w, y, y_stride};
  linear(pool, x, x_stride, rows, {&output, 1}, epilogue, rounded);
}

}  // namespace sida
