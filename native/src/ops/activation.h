#pragma once

#include <cstdint>

namespace sida {

/// The activation of a feed-forward network or an expert.
enum class Activation : uint8_t {
  kRelu,    ///< down · max(up · x, 0)
  kSwiglu,  ///< down · (silu(gate · x) ∘ up · x)
};

constexpr bool gated(Activation activation) { return activation == Activation::kSwiglu; }

}  // namespace sida
