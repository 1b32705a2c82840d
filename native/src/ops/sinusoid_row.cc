#include "ops/sinusoid_row.h"

#include "ops/sine.h"

namespace sida {

void add_sinusoid_row(const Sinusoids& sinusoids, size_t position, float* row) {
  const size_t half = sinusoids.frequencies.size();
  for (size_t j = 0; j < half; ++j) {
    const Turn at = turn(static_cast<double>(static_cast<float>(position) * sinusoids.frequencies[j]));
    row[j] += static_cast<float>(at.sine);
    row[half + j] += static_cast<float>(at.cosine);
  }
}

}  // namespace sida
