#pragma once

#include <cstddef>

namespace sida {

/// Most rows of such a product.
inline constexpr size_t kFewRows = 3;

/// The product of at most kFewRows rows with neighbouring float32 panels, several panels at a time: one row with one
/// panel would wait for each of its multiply-adds. Overwrites out (rows, panels · kPanelColumns). Each output is one
/// chain of fused multiply-adds over k, as in GemmTask.
struct FewRowsProduct {
  size_t panels;  ///< that one call multiplies
  void (*run)(const float* x, size_t x_stride, size_t rows, const float* first_panel, size_t k, float* out);
};

/// The product for an instruction set that cpu_kernels_named() has; null where it has none.
const FewRowsProduct* few_rows_named(const char* isa);

}  // namespace sida
