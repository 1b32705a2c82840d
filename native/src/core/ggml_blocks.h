#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace sida {

// The blocks of GGUF's quantized types. Numbers are those of the public decoders, bit by bit: the same products and
// differences in float32, in the same order. All fields are little-endian; scales are f16.

/// Q4_0: number j of 32 is d · (code − 8), the codes of 0 to 15 in low nibbles, of 16 to 31 in high ones.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t codes[16];
};

/// Q8_0: number j of 32 is code · d.
struct BlockQ8_0 {
  uint16_t d;
  int8_t codes[32];
};

/// Q4_K: eight groups of 32 share two scales; number j of a group is (d · scale) · code − (dmin · minimum). Two groups
/// share 32 bytes of codes, the first in low nibbles.
struct BlockQ4_K {
  uint16_t d, dmin;
  uint8_t scales[12];  ///< of 6 bits, and minimums of 6 bits: q4_k_scales() unpacks them
  uint8_t codes[128];
};

/// Q6_K: sixteen groups of 16; number j of a group is (d · scale) · (code − 32). q6_k_codes() unpacks the codes.
struct BlockQ6_K {
  uint8_t low[128];  ///< four low bits of the codes
  uint8_t high[64];  ///< two high bits
  int8_t scales[16];
  uint16_t d;
};

/// MXFP4: number j of 32 is 2^(scale − 128) · twice e2m1(code), the codes ordered as those of Q4_0.
struct BlockMxfp4 {
  uint8_t scale;
  uint8_t codes[16];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144 &&
              sizeof(BlockQ6_K) == 210 && sizeof(BlockMxfp4) == 17);

/// The scales and minimums of a block's eight groups, 0 to 63.
void q4_k_scales(const BlockQ4_K& block, uint8_t scales[8], uint8_t minimums[8]);

/// The codes of a block in order, from -32 to 31.
void q6_k_codes(const BlockQ6_K& block, int8_t codes[256]);

/// The numbers of `blocks` blocks of a type for which is_blocked() holds. The blocks need no alignment.
void dequantize(Dtype dtype, const std::byte* data, size_t blocks, float* out);

}  // namespace sida
