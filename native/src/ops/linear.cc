#include "ops/linear.h"

#include <algorithm>

namespace sida {
namespace {

// Below this many multiply-adds a loop is cheaper on one thread than the hand-over to another.
constexpr size_t kInlineWork = 64 * 1024;

}  // namespace

bool in_int8(WeightFormat format, Int8Scratch scratch) {
  return !scratch.empty() && (format.type == WeightType::kInt8 || format.type == WeightType::kInt4);
}

void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue, Int8Scratch int8) {
  const CpuKernels& kernels = cpu_kernels();
  const bool quantized = in_int8(w.format, int8);
  const size_t panels = w.panels();
  const size_t block = quantized ? kInt8Rows : rows;
  for (size_t row = 0; row < rows; row += block) {
    const size_t count = std::min(block, rows - row);
    const size_t chunks = count * w.k * w.n < kInlineWork ? 1 : std::min(panels, pool.threads() * 4);
    GemmTask task{x + row * x_stride, x_stride, count,   w.data, w.format, w.k, w.n, 0, 0,
                  y + row * y_stride, y_stride, epilogue};
    QuantizedRows codes{};
    if (quantized) {
      codes = quantized_rows(int8.data(), count, w.k, w.format);
      quantize(pool, {task.x, x_stride, count, w.k, w.format}, codes);
    }
    pool.parallel_for(chunks, [&](size_t chunk, size_t) {
      GemmTask part = task;
      part.panel_begin = panels * chunk / chunks;
      part.panel_end = panels * (chunk + 1) / chunks;
      if (quantized) {
        kernels.gemm_int8(part, codes);
      } else {
        kernels.gemm(part);
      }
    });
  }
}

}  // namespace sida
