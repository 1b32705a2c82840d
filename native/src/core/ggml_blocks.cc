#include "core/ggml_blocks.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/iq_grids.h"

namespace sida {
namespace {

void numbers_of(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (size_t j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((block.codes[j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((block.codes[j] >> 4) - 8);
  }
}

void numbers_of(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (size_t j = 0; j < 32; ++j) out[j] = static_cast<float>(block.codes[j]) * d;
}

void numbers_of(const BlockQ4_K& block, float* out) {
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  uint8_t scales[8], minimums[8];
  k_scales(block.scales, scales, minimums);
  for (size_t group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(scales[group]), minimum = dmin * static_cast<float>(minimums[group]);
    const uint8_t* codes = block.codes + group / 2 * 32;
    for (size_t j = 0; j < 32; ++j) {
      const int code = group % 2 == 0 ? codes[j] & 15 : codes[j] >> 4;
      out[group * 32 + j] = scale * static_cast<float>(code) - minimum;
    }
  }
}

void numbers_of(const BlockQ6_K& block, float* out) {
  const float d = f16_to_f32(block.d);
  int8_t codes[256];
  q6_k_codes(block, codes);
  for (size_t j = 0; j < 256; ++j) {
    const float scale = d * static_cast<float>(block.scales[j / 16]);
    out[j] = scale * static_cast<float>(codes[j]);
  }
}

/// 2^(scale - 128), also where that is subnormal; a scale of 255 is taken for 2^127, as the public decoders do.
float half_power(uint8_t scale) {
  const uint32_t bits = scale < 2 ? uint32_t{0x00200000} << scale : static_cast<uint32_t>(scale - 1) << 23;
  return std::bit_cast<float>(bits);
}

void numbers_of(const BlockMxfp4& block, float* out) {
  constexpr float kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const float power = half_power(block.scale);
  for (size_t j = 0; j < 16; ++j) {
    out[j] = power * kDoubled[block.codes[j] & 15];
    out[j + 16] = power * kDoubled[block.codes[j] >> 4];
  }
}

/// What the numbers of a block are made of, beside its parts.
struct Rule {
  size_t elements, group;
  /// Of the code of 0; or codes are places in a table.
  int zero = 0;
  CodeTable table = CodeTable::kNone;
  bool scales = false;
  bool minimum = false;
};

constexpr Rule rule_of(const BlockQ4_1&) { return {.elements = 32, .group = 32, .minimum = true}; }
constexpr Rule rule_of(const BlockQ5_0&) { return {.elements = 32, .group = 32, .zero = 16}; }
constexpr Rule rule_of(const BlockQ5_1&) { return {.elements = 32, .group = 32, .minimum = true}; }
constexpr Rule rule_of(const BlockQ5_K&) { return {.elements = 256, .group = 32, .scales = true, .minimum = true}; }
constexpr Rule rule_of(const BlockQ3_K&) { return {.elements = 256, .group = 16, .zero = 4, .scales = true}; }
constexpr Rule rule_of(const BlockQ2_K&) { return {.elements = 256, .group = 16, .scales = true, .minimum = true}; }
constexpr Rule rule_of(const BlockIq4Nl&) { return {.elements = 32, .group = 32, .table = CodeTable::kIq4}; }
constexpr Rule of_table(CodeTable table, size_t group) {
  return {.elements = 256, .group = group, .table = table, .scales = true};
}
constexpr Rule rule_of(const BlockIq4Xs&) { return of_table(CodeTable::kIq4, 32); }
constexpr Rule rule_of(const BlockIq2Xxs&) { return of_table(CodeTable::kIq2, 16); }
constexpr Rule rule_of(const BlockIq2Xs&) { return of_table(CodeTable::kIq2, 16); }
constexpr Rule rule_of(const BlockIq2S&) { return of_table(CodeTable::kIq2, 16); }
constexpr Rule rule_of(const BlockIq3Xxs&) { return of_table(CodeTable::kIq3Xxs, 32); }
constexpr Rule rule_of(const BlockIq3S&) { return of_table(CodeTable::kIq3S, 32); }

template <class Block>
void numbers_of(const Block& block, float* out) {
  constexpr Rule rule = rule_of(Block{});
  constexpr CodeNumbers numbers = code_numbers(rule.table);
  BlockParts parts;
  take_apart(block, parts);
  const float d = f16_to_f32(parts.d), m = rule.minimum ? f16_to_f32(parts.minimum) : 0;
  for (size_t j = 0; j < rule.elements; ++j) {
    const size_t group = j / rule.group;
    const float scale = rule.scales ? d * static_cast<float>(parts.scales[group]) * numbers.unit : d;
    const int code = rule.table == CodeTable::kNone ? parts.codes[j] - rule.zero : numbers.of[parts.codes[j]];
    out[j] = scale * static_cast<float>(code);
    if (rule.minimum) out[j] += rule.scales ? -(m * static_cast<float>(parts.minimums[group])) : m;
  }
}

/// The nibbles of `pairs`, low ones first.
void take_nibbles(const uint8_t* pairs, size_t half, uint8_t* codes) {
  for (size_t j = 0; j < half; ++j) {
    codes[j] = pairs[j] & 15;
    codes[half + j] = pairs[j] >> 4;
  }
}

/// Adds the fifth bits of 32 codes.
void add_fifth_bits(const uint8_t high[4], uint8_t* codes) {
  for (size_t j = 0; j < 32; ++j) codes[j] |= static_cast<uint8_t>((high[j / 8] >> j % 8 & 1) << 4);
}

/// Takes codes of 2 bits apart. 32 bytes hold 128 codes.
void take_pairs_of_bits(const uint8_t bytes[64], uint8_t codes[256]) {
  for (size_t row = 0; row < 8; ++row) {
    for (size_t j = 0; j < 32; ++j) codes[row * 32 + j] = bytes[row / 4 * 32 + j] >> row % 4 * 2 & 3;
  }
}

/// Eight numbers of 2 bits in bytes of their own.
uint64_t eight_bytes(uint64_t bits) {
  bits = (bits | bits << 24) & 0x000000ff000000ff;
  bits = (bits | bits << 12) & 0x000f000f000f000f;
  return (bits | bits << 6) & 0x0303030303030303;
}

/// Four numbers of 3 bits in bytes of their own.
uint32_t four_bytes(uint32_t bits) {
  bits = (bits | bits << 10) & 0x003f003f;
  return (bits | bits << 5) & 0x07070707;
}

/// Eight codes: a byte of `places` each, and a bit of `signs` behind its `bits` bits.
void put_signed(uint64_t places, uint64_t signs, unsigned bits, uint8_t* codes) {
  const uint64_t one_each = signs * 0x0101010101010101 & 0x8040201008040201;
  places |= ((one_each + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101) << bits;
  std::memcpy(codes, &places, sizeof places);
}

/// The magnitudes of an entry of a grid for IQ2, or of two for IQ3.
void take_signed(uint16_t entry, unsigned signs, uint8_t* codes) { put_signed(eight_bytes(entry), signs, 2, codes); }
void take_signed(uint16_t first, uint16_t second, unsigned signs, uint8_t* codes) {
  put_signed(four_bytes(first) | uint64_t{four_bytes(second)} << 32, signs, 3, codes);
}

/// Seven signs and the eighth, which makes the count of negative ones even.
unsigned even_signs(uint32_t seven) {
  seven &= 127;
  return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7;
}

uint32_t word_of(const uint8_t bytes[4]) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// 2s + 1, of 4 bits.
int8_t odd_scale(uint32_t s) { return static_cast<int8_t>(2 * (s & 15) + 1); }

/// Sixteen scales in nibbles.
void take_odd_scales(const uint8_t nibbles[8], BlockParts& parts) {
  for (size_t i = 0; i < 16; ++i) parts.scales[i] = odd_scale(nibbles[i / 2] >> i % 2 * 4);
}

}  // namespace

void k_scales(const uint8_t s[12], uint8_t scales[8], uint8_t minimums[8]) {
  // Groups 4 to 7 have their low four bits in the last four bytes and their high two above the six bits of the others.
  for (size_t j = 0; j < 4; ++j) {
    scales[j] = s[j] & 63;
    minimums[j] = s[j + 4] & 63;
    scales[j + 4] = static_cast<uint8_t>((s[j + 8] & 15) | (s[j] >> 6) << 4);
    minimums[j + 4] = static_cast<uint8_t>((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
  }
}

void q6_k_codes(const BlockQ6_K& block, int8_t codes[256]) {
  for (size_t j = 0; j < 256; ++j) {
    // Of each 128 codes, 64 bytes hold the low bits of codes 64 apart, and 32 bytes the high bits of codes 32 apart.
    const size_t half = j / 128, in_half = j % 128;
    const int low = block.low[half * 64 + in_half % 64] >> (in_half / 64 * 4) & 15;
    const int high = block.high[half * 32 + in_half % 32] >> (in_half / 32 * 2) & 3;
    codes[j] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void take_apart(const BlockQ4_1& block, BlockParts& parts) {
  parts.d = block.d, parts.minimum = block.m;
  take_nibbles(block.codes, 16, parts.codes);
}

void take_apart(const BlockQ5_0& block, BlockParts& parts) {
  parts.d = block.d;
  take_nibbles(block.codes, 16, parts.codes);
  add_fifth_bits(block.high, parts.codes);
}

void take_apart(const BlockQ5_1& block, BlockParts& parts) {
  parts.d = block.d, parts.minimum = block.m;
  take_nibbles(block.codes, 16, parts.codes);
  add_fifth_bits(block.high, parts.codes);
}

void take_apart(const BlockQ5_K& block, BlockParts& parts) {
  parts.d = block.d, parts.minimum = block.dmin;
  uint8_t scales[8];
  k_scales(block.scales, scales, parts.minimums);
  for (size_t group = 0; group < 8; ++group) {
    parts.scales[group] = static_cast<int8_t>(scales[group]);
    for (size_t j = 0; j < 32; ++j) {
      const int low = block.codes[group / 2 * 32 + j] >> group % 2 * 4 & 15;
      parts.codes[group * 32 + j] = static_cast<uint8_t>(low | (block.high[j] >> group & 1) << 4);
    }
  }
}

void take_apart(const BlockQ3_K& block, BlockParts& parts) {
  parts.d = block.d;
  take_pairs_of_bits(block.codes, parts.codes);
  for (size_t row = 0; row < 8; ++row) {
    for (size_t j = 0; j < 32; ++j) {
      parts.codes[row * 32 + j] |= static_cast<uint8_t>((block.high[j] >> row & 1) << 2);
    }
  }
  // Four low bits of the scales lie in the first eight bytes, two high ones in the others.
  for (size_t i = 0; i < 16; ++i) {
    const int low = block.scales[i % 8] >> i / 8 * 4 & 15, high = block.scales[8 + i % 4] >> i / 4 * 2 & 3;
    parts.scales[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void take_apart(const BlockQ2_K& block, BlockParts& parts) {
  parts.d = block.d, parts.minimum = block.dmin;
  take_pairs_of_bits(block.codes, parts.codes);
  for (size_t i = 0; i < 16; ++i) {
    parts.scales[i] = static_cast<int8_t>(block.scales[i] & 15);
    parts.minimums[i] = block.scales[i] >> 4;
  }
}

void take_apart(const BlockIq4Nl& block, BlockParts& parts) {
  parts.d = block.d;
  take_nibbles(block.codes, 16, parts.codes);
}

void take_apart(const BlockIq4Xs& block, BlockParts& parts) {
  parts.d = block.d;
  for (size_t group = 0; group < 8; ++group) {
    const int low = block.scales[group / 2] >> group % 2 * 4 & 15, high = block.high[group / 4] >> group % 4 * 2 & 3;
    parts.scales[group] = static_cast<int8_t>((low | high << 4) - 32);
    take_nibbles(block.codes + group * 16, 16, parts.codes + group * 32);
  }
}

void take_apart(const BlockIq2Xxs& block, BlockParts& parts) {
  parts.d = block.d;
  for (size_t group = 0; group < 8; ++group) {
    const auto& [entries, rest] = block.groups[group];
    const uint32_t signs = word_of(rest);
    parts.scales[2 * group] = parts.scales[2 * group + 1] = odd_scale(signs >> 28);
    for (size_t i = 0; i < 4; ++i) {
      take_signed(kIq2XxsGrid[entries[i]], even_signs(signs >> 7 * i), parts.codes + group * 32 + i * 8);
    }
  }
}

void take_apart(const BlockIq2Xs& block, BlockParts& parts) {
  parts.d = block.d;
  take_odd_scales(block.scales, parts);
  for (size_t i = 0; i < 32; ++i) {
    take_signed(kIq2XsGrid[block.entries[i] & 511], even_signs(block.entries[i] >> 9), parts.codes + i * 8);
  }
}

void take_apart(const BlockIq2S& block, BlockParts& parts) {
  parts.d = block.d;
  take_odd_scales(block.scales, parts);
  for (size_t i = 0; i < 32; ++i) {
    const size_t high = block.high[i / 4] >> i % 4 * 2 & 3;
    take_signed(kIq2SGrid[block.entries[i] | high << 8], block.signs[i], parts.codes + i * 8);
  }
}

void take_apart(const BlockIq3Xxs& block, BlockParts& parts) {
  parts.d = block.d;
  for (size_t i = 0; i < 32; ++i) {
    const uint32_t signs = word_of(block.rest[i / 4]);
    parts.scales[i / 4] = odd_scale(signs >> 28);
    const uint8_t* entries = block.entries + 2 * i;
    take_signed(kIq3XxsGrid[entries[0]], kIq3XxsGrid[entries[1]], even_signs(signs >> 7 * (i % 4)),
                parts.codes + i * 8);
  }
}

void take_apart(const BlockIq3S& block, BlockParts& parts) {
  parts.d = block.d;
  for (size_t i = 0; i < 32; ++i) {
    parts.scales[i / 4] = odd_scale(block.scales[i / 8] >> i / 4 % 2 * 4);
    const auto entry = [&](size_t at) {
      return kIq3SGrid[block.entries[at] | static_cast<size_t>(block.high[at / 8] >> at % 8 & 1) << 8];
    };
    take_signed(entry(2 * i), entry(2 * i + 1), block.signs[i], parts.codes + i * 8);
  }
}

void dequantize(Dtype dtype, const std::byte* data, size_t blocks, float* out) {
  if (!is_blocked(dtype)) throw Error("internal", std::string(dtype_name(dtype)) + " has no blocks. This is a bug.");
  const size_t elements = dtype_block(dtype).elements;
  with_block(dtype, [&](auto block) {
    for (size_t i = 0; i < blocks; ++i) {
      std::memcpy(&block, data + i * sizeof block, sizeof block);
      numbers_of(block, out + i * elements);
    }
  });
}

}  // namespace sida
