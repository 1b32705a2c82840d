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

template <class Block>
std::optional<BadScale> bad_scale(const Block& block) {
  const auto bad = bad_half(block.d);
  if constexpr (requires { block.dmin; }) {
    return bad ? bad : bad_half(block.dmin);
  } else if constexpr (requires { block.m; }) {
    return bad ? bad : bad_half(block.m);
  } else {
    return bad;
  }
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

std::optional<BadBlock> find_bad(Dtype dtype, std::span<const std::byte> blocks) {
  return with_block(dtype, [&](auto block) -> std::optional<BadBlock> {
    for (size_t i = 0; i < blocks.size() / sizeof block; ++i) {
      std::memcpy(&block, blocks.data() + i * sizeof block, sizeof block);
      if (const auto bad = bad_scale(block)) return BadBlock{i, *bad};
    }
    return std::nullopt;
  });
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
