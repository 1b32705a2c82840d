#include "ops/rotary_table.h"

#include "ops/sine.h"

namespace sida {

void rotary_row(const Rope& rope, size_t position, float* cosines, float* sines) {
  for (size_t j = 0; j < rope.inverse_frequencies.size(); ++j) {
    const Turn at = turn(static_cast<double>(static_cast<float>(position) * rope.inverse_frequencies[j]));
    cosines[j] = static_cast<float>(at.cosine) * rope.magnitude;
    sines[j] = static_cast<float>(at.sine) * rope.magnitude;
  }
}

}  // namespace sida
