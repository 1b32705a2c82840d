#include "weights/weight_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/ggml_blocks.h"
#include "weights/grouped_row.h"
#include "weights/panels.h"

namespace sida {
namespace {

/// What a block says, at its place in a row.
struct Place {
  uint8_t* codes;
  uint16_t* scales;
  uint16_t* supers;
};

uint16_t byte_pair(uint8_t first, uint8_t second) { return static_cast<uint16_t>(first | second << 8); }

/// Codes 0 to 15 in low nibbles, 16 to 31 in high ones.
void take_nibbles(const uint8_t* pairs, uint8_t* codes) {
  for (size_t j = 0; j < 16; ++j) {
    codes[j] = pairs[j] & 15;
    codes[16 + j] = pairs[j] >> 4;
  }
}

void take(const BlockQ8_0& block, const Place& to) {
  *to.scales = block.d;
  std::memcpy(to.codes, block.codes, sizeof block.codes);
}

void take(const BlockQ4_0& block, const Place& to) {
  *to.scales = block.d;
  take_nibbles(block.codes, to.codes);
}

void take(const BlockMxfp4& block, const Place& to) {
  // Half of the power, because packed codes stand for twice their value.
  *to.scales = f32_to_bf16(std::ldexp(1.0f, block.scale - 128));
  take_nibbles(block.codes, to.codes);
}

void take(const BlockQ4_K& block, const Place& to) {
  uint8_t scales[8], minimums[8];
  q4_k_scales(block, scales, minimums);
  for (size_t group = 0; group < 8; ++group) {
    to.scales[group] = byte_pair(scales[group], minimums[group]);
    const uint8_t* pairs = block.codes + group / 2 * 32;
    for (size_t j = 0; j < 32; ++j) to.codes[group * 32 + j] = group % 2 == 0 ? pairs[j] & 15 : pairs[j] >> 4;
  }
  to.supers[0] = block.d;
  to.supers[1] = block.dmin;
}

void take(const BlockQ6_K& block, const Place& to) {
  int8_t codes[256];
  q6_k_codes(block, codes);
  for (size_t j = 0; j < 256; ++j) to.codes[j] = static_cast<uint8_t>(codes[j] + 32);
  for (size_t group = 0; group < 8; ++group) {
    to.scales[group] =
        byte_pair(static_cast<uint8_t>(block.scales[2 * group]), static_cast<uint8_t>(block.scales[2 * group + 1]));
  }
  to.supers[0] = block.d;
}

template <class Block>
void pack(const std::byte* rows, size_t n, size_t k, WeightFormat format, size_t elements, std::byte* out) {
  const size_t stride = panel_stride(k, format), blocks = k / elements;
  GroupedRow row(k, format);
  const size_t supers = row.supers.size() / std::max<size_t>(blocks, 1);
  std::memset(out, 0, panel_matrix_bytes(n, k, format));
  const auto put = [&](size_t i) { row.put(i % kPanelColumns, out + i / kPanelColumns * stride); };
  for (size_t i = 0; i < n; ++i) {
    for (size_t b = 0; b < blocks; ++b) {
      // A block in the file has no alignment.
      Block block;
      std::memcpy(&block, rows + (i * blocks + b) * sizeof block, sizeof block);
      take(block, {row.codes.data() + b * elements, row.scales.data() + b * elements / format.group,
                   row.supers.data() + b * supers});
    }
    put(i);
  }
  row.clear();
  for (size_t i = n; i % kPanelColumns != 0; ++i) put(i);
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
