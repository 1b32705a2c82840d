#include "ops/linear.h"

#include <algorithm>

namespace sida {
namespace {

// Below this many multiply-adds a loop is cheaper on one thread than the hand-over to another.
constexpr size_t kInlineWork = 64 * 1024;

}  // namespace

void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue) {
  if (rows == 0) return;
  const CpuKernels& kernels = cpu_kernels();
  const size_t panels = w.panels();
  const size_t chunks = rows * w.k * w.n < kInlineWork ? 1 : std::min(panels, pool.threads() * 4);
  pool.parallel_for(chunks, [&](size_t chunk, size_t) {
    kernels.gemm({x, x_stride, rows, w.data, w.format, w.k, w.n, panels * chunk / chunks,
                  panels * (chunk + 1) / chunks, y, y_stride, epilogue});
  });
}

}  // namespace sida
