#pragma once

namespace sida {

struct Turn {
  double cosine, sine;
};

/// Cosine and sine of an angle, whose number of quarter turns is below 2^20. They have the same bits on every machine,
/// where the C library's functions differ in their last bits.
Turn turn(double angle);

}  // namespace sida
