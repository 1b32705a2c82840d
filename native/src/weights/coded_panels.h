#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weights/panel_layout.h"

// bf16c: a panel of bf16 numbers in 12 bits. Of each number a byte has the sign and the mantissa, and a nibble the code
// of the exponent: 0 stands for 0 (zeros and denormals), 1 to 15 for the column's base plus it. Escapes are the numbers
// with other exponents, whose code is 0: words place · 256 + exponent, where place = input · 32 + column, ascending.
// starts[i], 16 bits, is the first escape of inputs from 32 · i on; the last one counts them.
namespace sida {

/// The largest base: the exponent of code 15 is 255.
inline constexpr unsigned kMostBase = 240;

/// A panel with more escapes than it has room for.
struct CrowdedPanel {
  size_t panel, escapes;

  std::string text(size_t k) const;
};

/// Packs `weight`, (n, k) row-major, rounded to bf16. Gives the first panel that does not fit; then `out` is not whole.
std::optional<CrowdedPanel> pack_coded_panels(const float* weight, size_t n, size_t k, std::byte* out);

/// A panel's column as f32. Safe for any bytes.
void read_coded_column(const std::byte* panel, size_t k, size_t column, float* out);

/// Whether bases, starts and escapes are what pack_coded_panels() may write.
bool codes_hold(const std::byte* panel, size_t k);

}  // namespace sida
