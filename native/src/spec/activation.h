#pragma once

#include <cstdint>

namespace sida {

/// The activation of a feed-forward network or an expert.
enum class Activation : uint8_t {
  kRelu,    ///< down · max(up · x, 0)
  kGelu,    ///< down · gelu(up · x), gelu(u) = u · (1 + erf(u / √2)) / 2
  kSwiglu,  ///< down · (silu(gate · x) ∘ up · x)
  /// down · ((u + 1) ∘ g ∘ sigmoid(1.702 g)), g = min(gate · x, 7), u = up · x clamped to ±7
  kClampedSwiglu,
  kGeglu,  ///< down · (gelu(gate · x) ∘ up · x), gelu(g) = g / 2 · (1 + tanh(sqrt(2 / π) (g + 0.044715 g³)))
};

constexpr bool gated(Activation activation) {
  return activation != Activation::kRelu && activation != Activation::kGelu;
}

}  // namespace sida
