#include "ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype.h"

namespace sida {
namespace {

/// NaN where a weight is not finite.
float largest(const float* weight, size_t count) {
  float top = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(weight[i])) return std::numeric_limits<float>::quiet_NaN();
    top = std::max(top, std::abs(weight[i]));
  }
  return top;
}

void choose_codes(const float* weight, size_t count, float scale, double limit, int8_t* codes) {
  for (size_t i = 0; i < count; ++i) {
    const double code =
        std::isfinite(scale) && scale > 0 ? std::nearbyint(static_cast<double>(weight[i]) / scale) : 0;
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

}  // namespace sida
