#include "spec/relative_position.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace sida {

int relative_position_bucket(int relative_position, bool bidirectional, int buckets, int max_distance) {
  int bucket = 0;
  int distance = 0;
  if (bidirectional) {
    buckets /= 2;
    if (relative_position > 0) bucket = buckets;
    distance = std::abs(relative_position);
  } else {
    distance = std::max(-relative_position, 0);
  }
  const int max_exact = buckets / 2;
  if (distance < max_exact) return bucket + distance;
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(max_exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / max_exact));
  const int large = max_exact + static_cast<int>(ratio * static_cast<float>(buckets - max_exact));
  return bucket + std::min(large, buckets - 1);
}

size_t PositionBias::floats(size_t heads, size_t positions) { return heads * (2 * positions + 32); }

PositionBias::PositionBias(const RelativeBias& bias, size_t heads, const float* weight, bool bidirectional,
                           size_t positions, float* memory)
    : memory_(memory), positions_(positions), stride_(2 * positions + 32) {
  const auto last = static_cast<long>(positions_);
  for (long distance = -last; distance < last + 32; ++distance) {
    const int bucket =
        relative_position_bucket(static_cast<int>(distance), bidirectional, bias.buckets, bias.max_distance);
    for (size_t head = 0; head < heads; ++head) {
      memory_[head * stride_ + positions_ + distance] = weight[static_cast<size_t>(bucket) * heads + head];
    }
  }
}

}  // namespace sida
