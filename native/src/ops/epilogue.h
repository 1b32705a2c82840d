#pragma once

#include <cstdint>

namespace sida {

/// What becomes of a product.
enum class Epilogue : uint8_t {
  kStore,  ///< y = x·W
  kRelu,   ///< y = max(x·W, 0), NaN where x·W is not finite: -inf must not end as a sound 0
  kAdd,    ///< y += x·W
  /// y = silu(y) · x·W, silu(g) = g / (1 + exp(-g)): y holds x·gate. NaN where y is not finite.
  kSwiglu,
};

}  // namespace sida
