#include "core/ggml_blocks.h"

#include <bit>
#include <cstring>

#include "core/error.h"

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
  q4_k_scales(block, scales, minimums);
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

template <typename Block>
void dequantize_blocks(size_t elements, const std::byte* data, size_t blocks, float* out) {
  for (size_t i = 0; i < blocks; ++i) {
    Block block;
    std::memcpy(&block, data + i * sizeof(Block), sizeof(Block));
    numbers_of(block, out + i * elements);
  }
}

}  // namespace

void q4_k_scales(const BlockQ4_K& block, uint8_t scales[8], uint8_t minimums[8]) {
  // Groups 4 to 7 have their low four bits in the last four bytes and their high two above the six bits of the others.
  const uint8_t* s = block.scales;
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

void dequantize(Dtype dtype, const std::byte* data, size_t blocks, float* out) {
  switch (dtype) {
    case Dtype::kQ4_0:
      return dequantize_blocks<BlockQ4_0>(32, data, blocks, out);
    case Dtype::kQ8_0:
      return dequantize_blocks<BlockQ8_0>(32, data, blocks, out);
    case Dtype::kQ4_K:
      return dequantize_blocks<BlockQ4_K>(256, data, blocks, out);
    case Dtype::kQ6_K:
      return dequantize_blocks<BlockQ6_K>(256, data, blocks, out);
    case Dtype::kGgmlMxfp4:
      return dequantize_blocks<BlockMxfp4>(32, data, blocks, out);
    default:
      throw Error("internal", std::string(dtype_name(dtype)) + " has no blocks. This is a bug.");
  }
}

}  // namespace sida
