#include "predictor/position_features.h"

#include <array>
#include <cmath>

namespace sida {

void position_features(size_t first, size_t count, float* out) {
  constexpr size_t kWaves = kPositionFeatures / 2;
  static const auto rates = [] {
    std::array<double, kWaves> values;
    for (size_t i = 0; i < kWaves; ++i) {
      values[i] = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(kWaves));
    }
    return values;
  }();
  for (size_t position = first; position < first + count; ++position) {
    for (const double rate : rates) {
      const double angle = static_cast<double>(position) * rate;
      *out++ = static_cast<float>(std::sin(angle));
      *out++ = static_cast<float>(std::cos(angle));
    }
  }
}

}  // namespace sida
