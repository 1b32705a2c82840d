#include "predictor/matrix_product.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rounded_rows.h"
#include "predictor/few_rows.h"

namespace sida {
namespace {

// Rows that one weight-gradient product sums over; a panel of so many rows stays in the L2 cache.
constexpr size_t kRowBlock = 512;
// Rows a power of two apart would share one set of the L1 cache.
constexpr size_t kSkew = 16;

// out (n, rows), its rows `out_stride` apart, from m (rows, n).
void transpose(const float* m, size_t stride, size_t rows, size_t n, float* out, size_t out_stride) {
  constexpr size_t kTile = 16;
  for (size_t r0 = 0; r0 < rows; r0 += kTile) {
    const size_t r1 = std::min(r0 + kTile, rows);
    for (size_t c = 0; c < n; ++c) {
      for (size_t r = r0; r < r1; ++r) out[c * out_stride + r] = m[r * stride + c];
    }
  }
}

// Computes whole groups of panels with the few-rows product; returns the first panel that it leaves.
size_t multiply_few_rows(const FewRowsProduct& few, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w,
                         float* y, size_t y_stride, Epilogue epilogue) {
  alignas(64) float out[kFewRows * 8 * kPanelColumns];
  const size_t columns = few.panels * kPanelColumns;
  const auto* panels = reinterpret_cast<const float*>(w.data);
  size_t panel = 0;
  for (; (panel + few.panels) * kPanelColumns <= w.n; panel += few.panels) {
    few.run(x, x_stride, rows, panels + panel * w.k * kPanelColumns, w.k, out);
    for (size_t r = 0; r < rows; ++r) {
      const float* from = out + r * columns;
      float* to = y + r * y_stride + panel * kPanelColumns;
      if (epilogue == Epilogue::kAdd) {
        for (size_t c = 0; c < columns; ++c) to[c] += from[c];
      } else {
        std::memcpy(to, from, columns * sizeof(float));
      }
    }
  }
  return panel;
}

}  // namespace

void multiply(const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y, size_t y_stride,
              Epilogue epilogue) {
  if (rows == 0) return;
  static const FewRowsProduct* const few = few_rows_named(cpu_kernels().isa);
  size_t panel = 0;
  if (few != nullptr && rows <= kFewRows && w.format == kF32Format && epilogue != Epilogue::kRelu) {
    panel = multiply_few_rows(*few, x, x_stride, rows, w, y, y_stride, epilogue);
  }
  GemmTask task{};
  task.x = x;
  task.x_stride = x_stride;
  task.rows = rows;
  task.panels = w.data;
  task.format = w.format;
  task.k = w.k;
  task.n = w.n;
  task.panel_begin = panel;
  task.panel_end = w.panels();
  task.y = y;
  task.y_stride = y_stride;
  task.epilogue = epilogue;
  if (!quantized(w.format)) return cpu_kernels().gemm(task);
  thread_local std::vector<std::byte> memory;
  memory.resize(std::max(memory.size(), rounded_bytes(rows, w.k, w.format)));
  const RoundedRows rounded = rounded_rows(memory, rows, w.k, w.format);
  cpu_kernels().round_rows({x, x_stride, rows, w.k, w.format}, rounded);
  cpu_kernels().gemm_rounded(task, rounded);
}

PanelMatrix pack_transposed(const float* m, size_t n, size_t k, AlignedFloats* out, WeightFormat format) {
  const size_t floats = (panel_matrix_bytes(n, k, format) + sizeof(float) - 1) / sizeof(float);
  auto* panels = reinterpret_cast<std::byte*>(grow(out, floats));
  pack_panels(m, n, k, format, panels);
  return {panels, format, k, n};
}

PanelMatrix pack_rows(const float* m, size_t stride, size_t k, size_t n, AlignedFloats* out) {
  float* panel = grow(out, panel_matrix_bytes(n, k, kF32Format) / sizeof(float));
  const PanelMatrix packed{reinterpret_cast<std::byte*>(panel), kF32Format, k, n};
  for (size_t column = 0; column < n; column += kPanelColumns, panel += k * kPanelColumns) {
    const size_t width = std::min(kPanelColumns, n - column);
    for (size_t row = 0; row < k; ++row) {
      float* target = panel + row * kPanelColumns;
      std::memcpy(target, m + row * stride + column, width * sizeof(float));
      std::fill(target + width, target + kPanelColumns, 0.0f);
    }
  }
  return packed;
}

void add_weight_gradients(const float* dy, size_t dy_stride, size_t rows, size_t n,
                          std::initializer_list<GradientTerm> terms, ProductScratch* scratch) {
  for (size_t begin = 0; begin < rows; begin += kRowBlock) {
    const size_t block = std::min(kRowBlock, rows - begin);
    const size_t stride = block + kSkew;
    float* transposed = grow(&scratch->transposed, n * stride);
    transpose(dy + begin * dy_stride, dy_stride, block, n, transposed, stride);
    for (const GradientTerm& term : terms) {
      const PanelMatrix x = pack_rows(term.x + begin * term.stride, term.stride, block, term.width, &scratch->panels);
      multiply(transposed, stride, n, x, term.gradient, term.width, Epilogue::kAdd);
    }
  }
}

void add_rows(const float* dy, size_t dy_stride, size_t rows, size_t n, float* sums) {
  for (size_t r = 0; r < rows; ++r) {
    const float* row = dy + r * dy_stride;
    for (size_t i = 0; i < n; ++i) sums[i] += row[i];
  }
}

}  // namespace sida
