#include "weights/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype.h"

namespace sida {
namespace {

constexpr uint16_t kF16Nan = 0x7e00;

/// NaN where a weight is not finite.
float largest(const float* weight, size_t count) {
  float top = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(weight[i])) return std::numeric_limits<float>::quiet_NaN();
    top = std::max(top, std::abs(weight[i]));
  }
  return top;
}

/// 0 where it is not finite: such a scale is 0 as f16.
float inverse_of(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0;
}

void choose_codes(const float* weight, size_t count, float scale, double limit, int8_t* codes) {
  for (size_t i = 0; i < count; ++i) {
    const double code = std::isfinite(scale) && scale > 0 ? std::nearbyint(static_cast<double>(weight[i]) / scale) : 0;
    codes[i] = static_cast<int8_t>(std::clamp(code, -limit, limit));
  }
}

}  // namespace

float quantize_int8(const float* weight, size_t count, int8_t* codes) {
  float scale = largest(weight, count) / 127.0f;
  // Rounding up must not push the largest code's value beyond the largest float.
  while (std::isinf(scale * 127.0f)) scale = std::nextafter(scale, 0.0f);
  choose_codes(weight, count, scale, 127, codes);
  return scale;
}

uint16_t quantize_int4(const float* weight, size_t count, int8_t* codes) {
  uint16_t scale = f32_to_bf16(largest(weight, count) / 7.0f);
  while (std::isinf(bf16_to_f32(scale) * 7.0f)) --scale;
  choose_codes(weight, count, bf16_to_f32(scale), 7, codes);
  return scale;
}

uint16_t quantize_mxfp4(const float* weight, size_t count, uint8_t* nibbles) {
  // The smallest of OCP's powers. Its half is a subnormal bf16, and exact.
  constexpr int kSmallestPower = -127;
  const float top = largest(weight, count);
  std::fill_n(nibbles, count, uint8_t{0});
  if (std::isnan(top)) return f32_to_bf16(top);
  if (top == 0) return 0;
  // The largest weight is between 4 and 8 times the power: the largest code is 6.
  const int power = std::max(std::ilogb(top) - 2, kSmallestPower);
  for (size_t i = 0; i < count; ++i) {
    const double twice = std::ldexp(std::abs(static_cast<double>(weight[i])), 1 - power);
    uint8_t nearest = 0;
    for (uint8_t code = 1; code < 8; ++code) {
      const double before = std::abs(kMxfp4Values[nearest] - twice), now = std::abs(kMxfp4Values[code] - twice);
      // Of two equally near codes the even one.
      if (now < before || (now == before && code % 2 == 0)) nearest = code;
    }
    nibbles[i] = static_cast<uint8_t>(nearest | (std::signbit(weight[i]) && nearest != 0 ? 8 : 0));
  }
  return f32_to_bf16(std::ldexp(1.0f, power - 1));
}

uint16_t quantize_q8_0(const float* weight, size_t count, int8_t* codes) {
  const float scale = largest(weight, count) / 127.0f;
  const uint16_t rounded = f32_to_f16(scale);
  std::fill_n(codes, count, int8_t{0});
  if (!std::isfinite(f16_to_f32(rounded))) return kF16Nan;
  const float inverse = inverse_of(scale);
  for (size_t i = 0; i < count; ++i) {
    const float code = std::round(weight[i] * inverse);
    codes[i] = static_cast<int8_t>(std::clamp(code, -127.0f, 127.0f));
  }
  return rounded;
}

uint16_t quantize_q4_0(const float* weight, size_t count, int8_t* codes) {
  std::fill_n(codes, count, int8_t{0});
  const float top = largest(weight, count);
  const float* const most = std::find_if(weight, weight + count, [&](float value) { return std::abs(value) == top; });
  if (most == weight + count) return kF16Nan;
  const float scale = *most / -8.0f;
  const uint16_t rounded = f32_to_f16(scale);
  if (!std::isfinite(f16_to_f32(rounded))) return kF16Nan;
  const float inverse = inverse_of(scale);
  for (size_t i = 0; i < count; ++i) {
    // In f64, as the reference with fused multiply-adds.
    const double code = static_cast<double>(weight[i]) * inverse + 8.5;
    codes[i] = static_cast<int8_t>(std::clamp(std::trunc(static_cast<float>(code)), 0.0f, 15.0f) - 8);
  }
  return rounded;
}

}  // namespace sida
