#pragma once

#include <cstdint>

namespace sida {

// The vectors of magnitudes that blocks of GGUF's IQ2 and IQ3 types point into. An entry holds places of magnitudes in
// the type's table (core/code_tables.h), the first in the lowest bits: eight of 2 bits in IQ2, four of 3 bits in IQ3.
extern const uint16_t kIq2XxsGrid[256];
extern const uint16_t kIq2XsGrid[512];
extern const uint16_t kIq2SGrid[1024];
extern const uint16_t kIq3XxsGrid[256];
extern const uint16_t kIq3SGrid[512];

}  // namespace sida
