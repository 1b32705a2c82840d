#pragma once

#include <cstddef>

#include "spec/spec.h"

namespace sida {

/// row (2 · frequencies) += sines, then cosines of one position. The angle is a float32 product; its sine and cosine
/// are rounded from float64 and have the same bits on every machine.
void add_sinusoid_row(const Sinusoids& sinusoids, size_t position, float* row);

}  // namespace sida
