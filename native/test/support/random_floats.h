#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sida {

/// Close to the normal distribution: sums of four uniform numbers, which cost less than logarithms.
inline std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out(count);
  for (float& value : out) {
    const uint64_t bits = random();
    int sum = 0;
    for (int part = 0; part < 4; ++part) sum += static_cast<int16_t>(bits >> 16 * part);
    value = (static_cast<float>(sum) + 0.5f) * 2.6428965e-5f;  // sqrt(3) / 2^16
  }
  return out;
}

}  // namespace sida
