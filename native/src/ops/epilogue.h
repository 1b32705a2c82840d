#pragma once

#include <cstdint>

namespace sida {

/// What a GEMM does with a product x·W.
enum class Epilogue : uint8_t {
  kStore,  ///< y = x·W
  kRelu,   ///< y = max(x·W, 0), NaN where x·W is not finite: -inf must not become a valid 0
  kAdd,    ///< y += x·W
  /// y = silu(y) · x·W, silu(g) = g / (1 + exp(-g)): y holds x·gate. NaN where y is not finite.
  kSwiglu,
};

}  // namespace sida
