#pragma once

#include <cstdint>

namespace sida {

/// The number of an F8_E4M3 code, exactly. There are no infinities: the largest number is 448, and 0x7f and 0xff are
/// NaN.
float f8_e4m3_to_f32(uint8_t code);

}  // namespace sida
