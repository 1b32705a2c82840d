#pragma once

#include <cstddef>

namespace sida {

/// Rows that a product has few of.
inline constexpr size_t kFewRows = 3;

/// The product of at most kFewRows rows with neighbouring float32 panels, several at a time: one row with one
/// panel would wait for each of its multiply-adds. out (rows, panels · kPanelColumns) is overwritten; each
/// output is one chain of fused multiply-adds over k, as in GemmTask.
struct FewRowsProduct {
  size_t panels;  ///< that one call multiplies
  void (*run)(const float* x, size_t x_stride, size_t rows, const float* first_panel, size_t k, float* out);
};

/// For an instruction set of cpu_kernels_named(), which must have it; null where it has no such product.
const FewRowsProduct* few_rows_named(const char* isa);

}  // namespace sida
