#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// The type of activations in products: f32 in all; int8 in those with quantized weights; bf16 in those with bf16
/// weights, on the cpu alone.
enum class ActivationFormat : uint8_t { kF32, kBf16, kInt8 };

constexpr const char* activation_format_name(ActivationFormat format) {
  constexpr const char* kNames[] = {"f32", "bf16", "int8"};
  return kNames[static_cast<size_t>(format)];
}

}  // namespace sida
