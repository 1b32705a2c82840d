#include "weights/weight_blocks.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/ggml_blocks.h"
#include "weights/grouped_row.h"
#include "weights/panels.h"

namespace sida {
namespace {

constexpr uint32_t kNibbles = 0x0f0f0f0f;

/// Four codes.
uint32_t word(const void* codes, size_t index) {
  uint32_t bits;
  std::memcpy(&bits, static_cast<const std::byte*>(codes) + 4 * index, sizeof bits);
  return bits;
}

uint16_t byte_pair(int first, int second) { return static_cast<uint16_t>((first & 255) | (second & 255) << 8); }

/// A column's part of the bytes that one block of it becomes.
class Column {
 public:
  Column(std::byte* part, size_t column) : part_(part), column_(column) {}

  void put_word(size_t step, uint32_t bits) {
    std::memcpy(part_ + step * kPanelStepBytes + column_ * sizeof bits, &bits, sizeof bits);
  }
  void put_scale(size_t offset, uint16_t bits) {
    std::memcpy(part_ + offset + column_ * sizeof bits, &bits, sizeof bits);
  }
  Column behind(size_t bytes) const { return {part_ + bytes, column_}; }

 private:
  std::byte* part_;
  size_t column_;
};

constexpr size_t kCodes4 = code_bytes(32, WeightType::kQ4_0);
constexpr size_t kCodes6 = code_bytes(32, WeightType::kQ6_K);
constexpr size_t kCodes8 = code_bytes(32, WeightType::kQ8_0);

/// Codes 0 to 15 in low nibbles, 16 to 31 in high ones.
void put_nibbles(const uint8_t* pairs, uint16_t scale, Column to) {
  for (size_t step = 0; step < 4; ++step) {
    const uint32_t first = word(pairs, step % 2 * 2), second = word(pairs, step % 2 * 2 + 1);
    to.put_word(step, step < 2 ? (first & kNibbles) | (second & kNibbles) << 4
                               : (first >> 4 & kNibbles) | (second & ~kNibbles));
  }
  to.put_scale(kCodes4, scale);
}

void put(const BlockQ8_0& block, Column to) {
  for (size_t step = 0; step < 8; ++step) to.put_word(step, word(block.codes, step));
  to.put_scale(kCodes8, block.d);
}

void put(const BlockQ4_0& block, Column to) { put_nibbles(block.codes, block.d, to); }

void put(const BlockMxfp4& block, Column to) {
  // The bf16 of half of the power, because packed codes stand for twice their value; subnormal below 2.
  const int power = block.scale < 2 ? 0x0020 << block.scale : (block.scale - 1) << 7;
  put_nibbles(block.codes, static_cast<uint16_t>(power), to);
}

void put(const BlockQ4_K& block, Column to) {
  uint8_t scales[8], minimums[8];
  q4_k_scales(block, scales, minimums);
  to.put_scale(0, block.d);
  to.put_scale(kGroupScaleBytes, block.dmin);
  for (size_t group = 0; group < 8; ++group) {
    Column part = to.behind(2 * kGroupScaleBytes + group * (kCodes4 + kGroupScaleBytes));
    const uint8_t* pairs = block.codes + group / 2 * 32;
    const unsigned shift = group % 2 * 4;
    for (size_t step = 0; step < 4; ++step) {
      part.put_word(step, (word(pairs, 2 * step) >> shift & kNibbles) | (word(pairs, 2 * step + 1) >> shift & kNibbles)
                                                                            << 4);
    }
    part.put_scale(kCodes4, byte_pair(scales[group], minimums[group]));
  }
}

void put(const BlockQ6_K& block, Column to) {
  to.put_scale(0, block.d);
  for (size_t group = 0; group < 8; ++group) {
    Column part = to.behind(kGroupScaleBytes + group * (kCodes6 + kGroupScaleBytes));
    // As q6_k_codes() reads them.
    const uint8_t* low = block.low + group / 4 * 64 + group % 2 * 32;
    const uint8_t* high = block.high + group / 4 * 32;
    const unsigned low_shift = group % 4 / 2 * 4, high_shift = group % 4 * 2;
    for (size_t step = 0; step < 4; ++step) {
      part.put_word(step, (word(low, step) >> low_shift & kNibbles) | (word(low, step + 4) >> low_shift & kNibbles)
                                                                          << 4);
    }
    for (size_t half = 0; half < 2; ++half) {
      uint32_t bits = 0;
      for (size_t w = 0; w < 4; ++w) bits |= (word(high, 4 * half + w) >> high_shift & 0x03030303) << (2 * w);
      part.put_word(4 + half, bits);
    }
    part.put_scale(kCodes6, byte_pair(block.scales[2 * group], block.scales[2 * group + 1]));
  }
}

template <class Block>
void pack(const std::byte* rows, size_t n, size_t k, WeightFormat format, size_t elements, std::byte* out) {
  const size_t stride = panel_stride(k, format), blocks = k / elements, part = panel_stride(elements, format);
  for (size_t first = 0; first < n; first += kPanelColumns, out += stride) {
    const size_t columns = std::min(kPanelColumns, n - first);
    if (columns < kPanelColumns) {
      std::memset(out, 0, stride);
      GroupedRow zeros(k, format);
      zeros.clear();
      for (size_t i = columns; i < kPanelColumns; ++i) zeros.put(i, out);
    }
    for (size_t b = 0; b < blocks; ++b) {
      for (size_t i = 0; i < columns; ++i) {
        // A block in the file has no alignment.
        Block block;
        std::memcpy(&block, rows + ((first + i) * blocks + b) * sizeof block, sizeof block);
        put(block, {out + b * part, i});
      }
    }
  }
}

}  // namespace

WeightFormat format_of_blocks(Dtype dtype) {
  switch (dtype) {
    case Dtype::kQ8_0:
      return kQ8_0Format;
    case Dtype::kQ4_0:
      return kQ4_0Format;
    case Dtype::kQ4_K:
      return kQ4_KFormat;
    case Dtype::kQ6_K:
      return kQ6_KFormat;
    case Dtype::kGgmlMxfp4:
      return kMxfp4Format;
    default:
      throw Error("internal", std::string(dtype_name(dtype)) + " has no blocks. This is a bug.");
  }
}

void pack_blocks(Dtype dtype, const std::byte* rows, size_t n, size_t k, std::byte* out) {
  const WeightFormat format = format_of_blocks(dtype);
  const size_t elements = dtype_block(dtype).elements;
  switch (format.type) {
    case WeightType::kQ8_0:
      return pack<BlockQ8_0>(rows, n, k, format, elements, out);
    case WeightType::kQ4_0:
      return pack<BlockQ4_0>(rows, n, k, format, elements, out);
    case WeightType::kQ4_K:
      return pack<BlockQ4_K>(rows, n, k, format, elements, out);
    case WeightType::kQ6_K:
      return pack<BlockQ6_K>(rows, n, k, format, elements, out);
    default:
      return pack<BlockMxfp4>(rows, n, k, format, elements, out);
  }
}

}  // namespace sida
