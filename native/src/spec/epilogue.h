#pragma once

#include <cstdint>

#include "spec/activation.h"

namespace sida {

/// What a GEMM does with a product x·W, to which the bias has been added where there is one.
enum class Epilogue : uint8_t {
  kStore,  ///< y = x·W
  kRelu,   ///< y = max(x·W, 0), NaN where x·W is not finite: -inf must not become a valid 0
  kGelu,   ///< y = gelu(x·W), gelu(u) = u · (1 + erf(u / √2)) / 2; NaN where x·W is not finite
  kAdd,    ///< y += x·W
  /// y = silu(y) · x·W, silu(g) = g / (1 + exp(-g)): y holds x·gate. NaN where y is not finite.
  kSwiglu,
  /// y = (u + 1) · g / (1 + exp(-1.702 g)), g = min(y, 7), u = x·W clamped to ±7: y holds x·gate. NaN where y or x·W is
  /// not finite.
  kClampedSwiglu,
  /// y = gelu(y) · x·W, gelu(g) = g / (1 + exp(-kGeluSlope (g + kGeluCube g³))): y holds x·gate. NaN where y is not
  /// finite.
  kGeglu,
};

/// Of the up projection of a network with this activation.
constexpr Epilogue activation_epilogue(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return Epilogue::kRelu;
    case Activation::kGelu:
      return Epilogue::kGelu;
    case Activation::kSwiglu:
      return Epilogue::kSwiglu;
    case Activation::kGeglu:
      return Epilogue::kGeglu;
    case Activation::kClampedSwiglu:
      break;
  }
  return Epilogue::kClampedSwiglu;
}

/// Whether y holds x·gate before.
constexpr bool takes_gate(Epilogue epilogue) {
  return epilogue == Epilogue::kSwiglu || epilogue == Epilogue::kClampedSwiglu || epilogue == Epilogue::kGeglu;
}

/// Constants of kClampedSwiglu.
inline constexpr float kGateLimit = 7.0f;
inline constexpr float kGateSlope = 1.702f;

/// Constants of kGeglu: 2 · sqrt(2 / π), as (1 + tanh(x)) / 2 = 1 / (1 + exp(-2x)), and the factor of the cube.
inline constexpr float kGeluSlope = 1.5957691216f;
inline constexpr float kGeluCube = 0.044715f;

}  // namespace sida
