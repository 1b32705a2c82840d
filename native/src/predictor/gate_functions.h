#pragma once

#include <bit>
#include <cstdint>

namespace sida {

// Plain arithmetic that a compiler vectorizes. Unlike the functions of a C library, these give the same bits in vector
// lanes and loop tails, in every instruction set and on every machine.

/// eˣ as 2ⁿ · eʳ with |r| <= ln2/2. The error is below 3 ulp on [-87, 87]; x outside is clamped. NaN and the infinities
/// give NaN.
[[gnu::always_inline]] inline float gate_exp(float x) {
  // Compared as integers: a comparison of floats may trap, and a loop that contains one is not vectorized.
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int32_t most = 0x42ae0000;  // 87
  const int32_t size = static_cast<int32_t>(bits & 0x7fffffffu);
  const uint32_t held = static_cast<uint32_t>(size < most ? size : most) | (bits & 0x80000000u);
  const float v = std::bit_cast<float>(held) + x * 0.0f;

  const float magic = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer held in the low bits
  const float t = v * 1.44269504f + magic;
  const float n = t - magic;
  float r = v - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (r * r) * p + (r + 1.0f);
  const uint32_t power = (std::bit_cast<uint32_t>(t) << 23) + 0x3f800000u;
  return y * std::bit_cast<float>(power);
}

[[gnu::always_inline]] inline float gate_sigmoid(float x) { return 1.0f / (1.0f + gate_exp(-x)); }

[[gnu::always_inline]] inline float gate_tanh(float x) { return 2.0f / (1.0f + gate_exp(-2.0f * x)) - 1.0f; }

}  // namespace sida
