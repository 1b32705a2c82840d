#include "core/fp8.h"

#include <bit>

namespace sida {

float f8_e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude < 8) {
    // A denormal is a multiple of 2^-9.
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f));
  }
  // From a bias of 7 to one of 127.
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

}  // namespace sida
