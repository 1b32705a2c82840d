#pragma once

#include <cstdint>

namespace sida {

/// A table of numbers. A code of GGUF's IQ types is a place in it. IQ2 and IQ3 have magnitudes first, then their
/// opposites.
enum class CodeTable : uint8_t { kNone, kIq4, kIq2, kIq3Xxs, kIq3S };

struct CodeNumbers {
  int8_t of[16];
  /// A power of two, by which scales are multiplied.
  float unit;
};

/// By CodeTable.
inline constexpr CodeNumbers kCodeNumbers[] = {
    {{}, 1},
    {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, 1},
    {{8, 25, 43, 0, -8, -25, -43, 0}, 0.125f},
    {{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}, 0.25f},
    {{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}, 1},
};

/// `static`, as in panel_layout.h.
static constexpr const CodeNumbers& code_numbers(CodeTable table) { return kCodeNumbers[static_cast<unsigned>(table)]; }

}  // namespace sida
