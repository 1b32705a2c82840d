#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace sida {

/// Of the normal distribution.
inline std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

}  // namespace sida
