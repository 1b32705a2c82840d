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

constexpr WeightFormat format_of(const BlockQ4_0&) { return kQ4_0Format; }
constexpr WeightFormat format_of(const BlockQ8_0&) { return kQ8_0Format; }
constexpr WeightFormat format_of(const BlockQ4_K&) { return kQ4_KFormat; }
constexpr WeightFormat format_of(const BlockQ6_K&) { return kQ6_KFormat; }
constexpr WeightFormat format_of(const BlockMxfp4&) { return kMxfp4Format; }
constexpr WeightFormat format_of(const BlockQ4_1&) { return kQ4_1Format; }
constexpr WeightFormat format_of(const BlockQ5_0&) { return kQ5_0Format; }
constexpr WeightFormat format_of(const BlockQ5_1&) { return kQ5_1Format; }
constexpr WeightFormat format_of(const BlockQ5_K&) { return kQ5_KFormat; }
constexpr WeightFormat format_of(const BlockQ3_K&) { return kQ3_KFormat; }
constexpr WeightFormat format_of(const BlockQ2_K&) { return kQ2_KFormat; }
constexpr WeightFormat format_of(const BlockIq4Nl&) { return kIq4NlFormat; }
constexpr WeightFormat format_of(const BlockIq4Xs&) { return kIq4XsFormat; }
constexpr WeightFormat format_of(const BlockIq2Xxs&) { return kIq2Format; }
constexpr WeightFormat format_of(const BlockIq2Xs&) { return kIq2Format; }
constexpr WeightFormat format_of(const BlockIq2S&) { return kIq2Format; }
constexpr WeightFormat format_of(const BlockIq3Xxs&) { return kIq3XxsFormat; }
constexpr WeightFormat format_of(const BlockIq3S&) { return kIq3SFormat; }

/// A column's part of the bytes that one block of it becomes.
class Column {
 public:
  Column(std::byte* part, size_t column) : part_(part), column_(column) {}

  void put_word(size_t step, uint32_t bits) const {
    std::memcpy(part_ + step * kPanelStepBytes + column_ * sizeof bits, &bits, sizeof bits);
  }
  void put_scale(size_t offset, uint16_t bits) const {
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
  k_scales(block.scales, scales, minimums);
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

/// The bits `bits` of 32 codes at `codes`, from bit `shift` on, as a plane.
void put_plane(const uint8_t* codes, unsigned bits, unsigned shift, Column to) {
  const uint32_t mask = bits == 4 ? kNibbles : bits == 2 ? 0x03030303 : 0x01010101;
  const size_t words = 8 / bits;
  for (size_t step = 0; step < bits; ++step) {
    uint32_t plane = 0;
    for (size_t w = 0; w < words; ++w) {
      plane |= (word(codes, step * words + w) >> shift & mask) << static_cast<unsigned>(w) * bits;
    }
    to.put_word(step, plane);
  }
}

/// The parts of a block of a type that the functions above do not know.
template <class Block>
requires requires(const Block& block, BlockParts& parts) { take_apart(block, parts); }
void put(const Block& block, Column to) {
  constexpr WeightFormat format = format_of(Block{});
  constexpr GroupedType of = grouped_type(format.type);
  constexpr size_t kCodes = code_bytes(format.group, format.type), kScaled = scaled_inputs(format);
  BlockParts parts;
  take_apart(block, parts);
  if (of.supers > 0) to.put_scale(0, parts.d);
  if (of.supers > 1) to.put_scale(kGroupScaleBytes, parts.minimum);
  for (size_t begin = 0; begin < block_inputs(format.type); begin += format.group) {
    const Column group =
        to.behind(super_bytes(format.type) + begin / format.group * (kCodes + scale_bytes(format.type)));
    for (size_t i = 0; i < format.group; i += 32) {
      put_plane(parts.codes + begin + i, of.low, 0, group.behind(i * of.low * kPanelColumns / 8));
    }
    if (of.high > 0) put_plane(parts.codes + begin, of.high, of.low, group.behind(of.low * kPanelStepBytes));
    const Column scales = group.behind(kCodes);
    const int8_t* s = parts.scales + begin / kScaled;
    const uint8_t* m = parts.minimums + begin / kScaled;
    if (of.supers == 0) {
      scales.put_scale(0, parts.d);
      if (of.minimum) scales.put_scale(kGroupScaleBytes, parts.minimum);
    } else if (!of.minimum) {
      scales.put_scale(0, byte_pair(s[0], s[1]));
    } else if (of.parts == 1) {
      scales.put_scale(0, byte_pair(s[0], m[0]));
    } else {
      scales.put_scale(0, byte_pair(s[0] | m[0] << 4, s[1] | m[1] << 4));
    }
  }
}

template <class Block>
void pack(const std::byte* rows, size_t n, size_t k, WeightFormat format, size_t elements, std::byte* out) {
  const size_t stride = panel_stride(k, format), blocks = k / elements, part = panel_stride(elements, format);
  for (size_t first = 0; first < n; first += kPanelColumns, out += stride) {
    const size_t columns = std::min(kPanelColumns, n - first);
    if (columns < kPanelColumns) {
      std::memset(out, 0, stride);
      // Of the other types zeros are zeros.
      GroupedRow zeros(format.type == WeightType::kQ4_0 ? k : 0, format);
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
  if (!is_blocked(dtype)) throw Error("internal", std::string(dtype_name(dtype)) + " has no blocks. This is a bug.");
  return with_block(dtype, [](auto block) { return format_of(block); });
}

void pack_blocks(Dtype dtype, const std::byte* rows, size_t n, size_t k, std::byte* out) {
  const size_t elements = dtype_block(dtype).elements;
  with_block(dtype, [&](auto block) { pack<decltype(block)>(rows, n, k, format_of(block), elements, out); });
}

}  // namespace sida
