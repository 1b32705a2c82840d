#pragma once

#include <cstddef>

#include "spec/spec.h"

namespace sida {

/// Writes cosines and sines of one position, each (rope.width() / 2), times rope.magnitude. The angle is a float32
/// product; its cosine and sine are rounded from float64 and have the same bits on every machine.
void rotary_row(const Rope& rope, size_t position, float* cosines, float* sines);

}  // namespace sida
