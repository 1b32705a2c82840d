#include "checkpoint/finite_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/checkpoint_error.h"
#include "core/dtype.h"
#include "core/ggml_blocks.h"

namespace sida {
namespace {

struct BadScale {
  std::string expected, found;
};

std::optional<BadScale> bad_half(uint16_t bits) {
  const float scale = f16_to_f32(bits);
  if (std::isfinite(scale)) return std::nullopt;
  return BadScale{"a finite number", std::isnan(scale) ? "NaN" : "infinity"};
}

std::optional<BadScale> bad_scale(const BlockQ4_0& block) { return bad_half(block.d); }
std::optional<BadScale> bad_scale(const BlockQ8_0& block) { return bad_half(block.d); }
std::optional<BadScale> bad_scale(const BlockQ6_K& block) { return bad_half(block.d); }

std::optional<BadScale> bad_scale(const BlockQ4_K& block) {
  const auto bad = bad_half(block.d);
  return bad ? bad : bad_half(block.dmin);
}

/// A scale of 255 is no number. A block of zeros may have any.
std::optional<BadScale> bad_scale(const BlockMxfp4& block) {
  const bool zeros = std::ranges::all_of(block.codes, [](uint8_t codes) { return (codes & 0x77) == 0; });
  if (zeros || block.scale != 255) return std::nullopt;
  return BadScale{"a number from 0 to 254", "255"};
}

struct BadBlock {
  size_t block;
  BadScale scale;
};

template <typename Block>
std::optional<BadBlock> find_bad(std::span<const std::byte> blocks) {
  for (size_t i = 0; i < blocks.size() / sizeof(Block); ++i) {
    Block block;
    std::memcpy(&block, blocks.data() + i * sizeof(Block), sizeof(Block));
    if (const auto bad = bad_scale(block)) return BadBlock{i, *bad};
  }
  return std::nullopt;
}

std::optional<BadBlock> find_bad(Dtype dtype, std::span<const std::byte> blocks) {
  switch (dtype) {
    case Dtype::kQ4_0:
      return find_bad<BlockQ4_0>(blocks);
    case Dtype::kQ8_0:
      return find_bad<BlockQ8_0>(blocks);
    case Dtype::kQ4_K:
      return find_bad<BlockQ4_K>(blocks);
    case Dtype::kQ6_K:
      return find_bad<BlockQ6_K>(blocks);
    default:
      return find_bad<BlockMxfp4>(blocks);
  }
}

}  // namespace

void check_finite_blocks(const std::string& file, const TensorInfo& tensor, uint64_t first,
                         std::span<const std::byte> blocks) {
  const auto bad = find_bad(tensor.dtype, blocks);
  if (!bad) return;
  const uint64_t elements = dtype_block(tensor.dtype).elements, begin = (first + bad->block) * elements;
  const uint64_t width = tensor.shape.back(), row = begin / width, column = begin % width;
  throw checkpoint_error({file,
                          tensor.name,
                          "a scale of " + std::string(dtype_name(tensor.dtype)) + ": block of row " +
                              std::to_string(row) + ", columns " + std::to_string(column) + " to " +
                              std::to_string(column + elements - 1),
                          bad->scale.expected,
                          bad->scale.found,
                          "the file may be damaged: download it again",
                          {}});
}

}  // namespace sida
