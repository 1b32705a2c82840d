#pragma once

#include <cstdlib>

namespace sida {

/// Every f32, bf16 and scale of poisoned bytes is NaN.
inline constexpr unsigned char kPoison = 0xff;

/// Whether slots are filled with NaNs before an expert comes into them (SIDA_POISON_SLOTS), so that computing with a
/// slot too early or too late shows in the answer. For tests.
inline bool poisons_slots() { return std::getenv("SIDA_POISON_SLOTS") != nullptr; }

}  // namespace sida
