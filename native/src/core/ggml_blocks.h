#pragma once

#include <cstddef>
#include <cstdint>

#include "core/code_tables.h"
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
  uint8_t scales[12];  ///< of 6 bits, and minimums of 6 bits: k_scales() unpacks them
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

/// Q4_1: number j of 32 is code · d + m. Codes lie as in Q4_0.
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t codes[16];
};

/// Q5_0: number j of 32 is (code − 16) · d. `high` has the fifth bit of code j at bit j, of 32, little-endian.
struct BlockQ5_0 {
  uint16_t d;
  uint8_t high[4];
  uint8_t codes[16];
};

/// Q5_1: number j of 32 is code · d + m.
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t high[4];
  uint8_t codes[16];
};

/// Q5_K: as Q4_K; `high` has the fifth bit of code j of group g at bit g of byte j.
struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t codes[128];
};

/// Q3_K: sixteen groups of 16; number j of a group is (d · (scale − 32)) · (code − 4), of 3 bits.
struct BlockQ3_K {
  uint8_t high[32];   ///< the third bit of the codes: bit g of byte j is that of code j of 32 codes g
  uint8_t codes[64];  ///< two low bits: of each 128 codes, 32 bytes hold codes 32 apart
  uint8_t scales[12];
  uint16_t d;
};

/// Q2_K: sixteen groups of 16; number j of a group is (d · scale) · code − (dmin · minimum), all of 4 and 2 bits.
struct BlockQ2_K {
  uint8_t scales[16];  ///< in low nibbles, minimums in high ones
  uint8_t codes[64];   ///< as in Q3_K
  uint16_t d, dmin;
};

/// IQ4_NL: number j of 32 is d · table[code], of CodeTable::kIq4. Codes lie as in Q4_0.
struct BlockIq4Nl {
  uint16_t d;
  uint8_t codes[16];
};

/// IQ4_XS: eight groups of 32, as IQ4_NL; number j of a group is (d · (scale − 32)) · table[code].
struct BlockIq4Xs {
  uint16_t d;
  uint8_t high[2];    ///< two high bits of each scale, little-endian
  uint8_t scales[4];  ///< four low bits
  uint8_t codes[128];
};

// IQ2 and IQ3: a number is (d · (2 · scale + 1)) · unit · ± magnitude (core/code_tables.h). Eight magnitudes lie in one
// entry of a grid, or four in each of two (core/iq_grids.h). Scales have 4 bits.

/// IQ2_XXS: eight groups of 32.
struct BlockIq2Xxs {
  uint16_t d;
  /// Four entries of the grid; then, from the lowest bit on, four times seven signs, and the scale. Of eight signs the
  /// last one makes the count of negative ones even.
  struct {
    uint8_t entries[4];
    uint8_t rest[4];
  } groups[8];
};

/// IQ2_XS: sixteen groups of 16.
struct BlockIq2Xs {
  uint16_t d;
  uint16_t entries[32];  ///< of 9 bits, and above them seven signs
  uint8_t scales[8];     ///< the first of two in the low nibble
};

/// IQ2_S: sixteen groups of 16.
struct BlockIq2S {
  uint16_t d;
  uint8_t entries[32];  ///< eight low bits
  uint8_t signs[32];
  uint8_t high[8];  ///< two high bits of four entries each
  uint8_t scales[8];
};

/// IQ3_XXS: eight groups of 32.
struct BlockIq3Xxs {
  uint16_t d;
  uint8_t entries[64];
  uint8_t rest[8][4];  ///< as in IQ2_XXS
};

/// IQ3_S: eight groups of 32.
struct BlockIq3S {
  uint16_t d;
  uint8_t entries[64];  ///< eight low bits
  uint8_t high[8];      ///< the ninth bits of eight entries each
  uint8_t signs[32];
  uint8_t scales[4];
};

/// A block taken apart. A code stands for a number, which is multiplied by a scale; a minimum is then subtracted.
struct BlockParts {
  uint8_t codes[256];
  uint16_t d;        ///< f16
  uint16_t minimum;  ///< f16: m or dmin
  /// Of the groups in order, as the number is multiplied by them.
  int8_t scales[16];
  uint8_t minimums[16];
};

void take_apart(const BlockQ4_1& block, BlockParts& parts);
void take_apart(const BlockQ5_0& block, BlockParts& parts);
void take_apart(const BlockQ5_1& block, BlockParts& parts);
void take_apart(const BlockQ5_K& block, BlockParts& parts);
void take_apart(const BlockQ3_K& block, BlockParts& parts);
void take_apart(const BlockQ2_K& block, BlockParts& parts);
void take_apart(const BlockIq4Nl& block, BlockParts& parts);
void take_apart(const BlockIq4Xs& block, BlockParts& parts);
void take_apart(const BlockIq2Xxs& block, BlockParts& parts);
void take_apart(const BlockIq2Xs& block, BlockParts& parts);
void take_apart(const BlockIq2S& block, BlockParts& parts);
void take_apart(const BlockIq3Xxs& block, BlockParts& parts);
void take_apart(const BlockIq3S& block, BlockParts& parts);

/// Calls f(Block{}) with a block of the type, for which is_blocked() holds.
template <class F>
auto with_block(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::kQ4_0:
      return f(BlockQ4_0{});
    case Dtype::kQ8_0:
      return f(BlockQ8_0{});
    case Dtype::kQ4_K:
      return f(BlockQ4_K{});
    case Dtype::kQ6_K:
      return f(BlockQ6_K{});
    case Dtype::kQ4_1:
      return f(BlockQ4_1{});
    case Dtype::kQ5_0:
      return f(BlockQ5_0{});
    case Dtype::kQ5_1:
      return f(BlockQ5_1{});
    case Dtype::kQ5_K:
      return f(BlockQ5_K{});
    case Dtype::kQ3_K:
      return f(BlockQ3_K{});
    case Dtype::kQ2_K:
      return f(BlockQ2_K{});
    case Dtype::kIq4Nl:
      return f(BlockIq4Nl{});
    case Dtype::kIq4Xs:
      return f(BlockIq4Xs{});
    case Dtype::kIq2Xxs:
      return f(BlockIq2Xxs{});
    case Dtype::kIq2Xs:
      return f(BlockIq2Xs{});
    case Dtype::kIq2S:
      return f(BlockIq2S{});
    case Dtype::kIq3Xxs:
      return f(BlockIq3Xxs{});
    case Dtype::kIq3S:
      return f(BlockIq3S{});
    default:
      return f(BlockMxfp4{});
  }
}

static_assert(sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24 &&
              sizeof(BlockQ5_K) == 176 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ2_K) == 84 &&
              sizeof(BlockIq4Nl) == 18 && sizeof(BlockIq4Xs) == 136);
static_assert(sizeof(BlockIq2Xxs) == 66 && sizeof(BlockIq2Xs) == 74 && sizeof(BlockIq2S) == 82 &&
              sizeof(BlockIq3Xxs) == 98 && sizeof(BlockIq3S) == 110);
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144 &&
              sizeof(BlockQ6_K) == 210 && sizeof(BlockMxfp4) == 17);

/// The scales and minimums of the eight groups of a block of Q4_K or Q5_K, 0 to 63.
void k_scales(const uint8_t bytes[12], uint8_t scales[8], uint8_t minimums[8]);

/// The codes of a block in order, from -32 to 31.
void q6_k_codes(const BlockQ6_K& block, int8_t codes[256]);

/// The numbers of `blocks` blocks of a type for which is_blocked() holds. The blocks need no alignment.
void dequantize(Dtype dtype, const std::byte* data, size_t blocks, float* out);

}  // namespace sida
