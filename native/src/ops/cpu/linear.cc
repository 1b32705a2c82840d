#include "ops/cpu/linear.h"

#include <algorithm>

namespace sida {
namespace {

// Below this many multiply-adds a loop is faster on one thread than shared with others.
constexpr size_t kInlineWork = 64 * 1024;

/// Whether two products can share the form of x: all f32, or quantized for the same format.
bool alike(const PanelMatrix& a, const PanelMatrix& b, Int8Scratch int8) {
  if (in_int8(a.format, int8) != in_int8(b.format, int8)) return false;
  return !in_int8(a.format, int8) || a.format == b.format;
}

/// Computes `outputs` from rows in `codes`, or from x where `codes` is null.
void run(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, std::span<const LinearOutput> outputs,
         size_t first_row, Epilogue epilogue, const QuantizedRows* codes) {
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
        const GemmTask task{x, x_stride, rows, w.data, w.format, w.k, w.n, begin, last, y, output.y_stride, epilogue,
                            w.bias};
        if (codes != nullptr) {
          kernels.gemm_int8(task, *codes);
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

bool in_int8(WeightFormat format, Int8Scratch scratch) {
  if (scratch.empty()) return false;
  return quantized(format);
}

void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, std::span<const LinearOutput> outputs,
            Epilogue epilogue, Int8Scratch int8) {
  while (!outputs.empty()) {
    const PanelMatrix& w = outputs.front().w;
    const auto other =
        std::find_if(outputs.begin(), outputs.end(), [&](const auto& output) { return !alike(w, output.w, int8); });
    const auto group = outputs.first(static_cast<size_t>(other - outputs.begin()));
    outputs = outputs.subspan(group.size());
    if (!in_int8(w.format, int8)) {
      run(pool, x, x_stride, rows, group, 0, epilogue, nullptr);
      continue;
    }
    for (size_t row = 0; row < rows; row += kInt8Rows) {
      const size_t count = std::min(kInt8Rows, rows - row);
      const QuantizedRows codes = quantized_rows(int8.data(), count, w.k, w.format);
      const float* begin = x + row * x_stride;
      quantize(pool, {begin, x_stride, count, w.k, w.format}, codes);
      run(pool, begin, x_stride, count, group, row, epilogue, &codes);
    }
  }
}

void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue, Int8Scratch int8) {
  const LinearOutput output{w, y, y_stride};
  linear(pool, x, x_stride, rows, {&output, 1}, epilogue, int8);
}

}  // namespace sida
