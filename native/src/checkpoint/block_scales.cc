#include "checkpoint/block_scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "core/checkpoint_error.h"
#include "core/fp8.h"

namespace sida {
namespace {

constexpr float kLargestNumber = 448;
constexpr float kLargestScale = std::numeric_limits<float>::max() / kLargestNumber;

/// Scales that are in memory at a time.
constexpr uint64_t kScalesAPart = 1 << 20;

/// Which scales belong to the rows of a tensor. Blocks begin anew with each matrix of a tensor that has several.
struct ScaleRows {
  uint64_t rows;         ///< of a matrix
  uint64_t block_rows;   ///< of a block
  uint64_t in_a_matrix;  ///< rows of scales

  explicit ScaleRows(const SlotData& data)
      : rows(data.tensor->shape[data.tensor->shape.size() - 2]),
        block_rows(data.block.rows),
        in_a_matrix(data.block_scales->shape[data.block_scales->shape.size() - 2]) {}

  uint64_t of(uint64_t row) const { return row / rows * in_a_matrix + row % rows / block_rows; }
};

std::string text_of(float number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(number));
  return text;
}

void check(const Checkpoint& checkpoint, const TensorInfo& tensor, const std::vector<float>& scales, uint64_t first) {
  // NaN is not sound either.
  const auto sound = [](float scale) { return scale > 0 && scale <= kLargestScale; };
  const auto bad = std::find_if_not(scales.begin(), scales.end(), sound);
  if (bad == scales.end()) return;
  const uint64_t at = static_cast<uint64_t>(bad - scales.begin()), width = tensor.shape.back();
  const std::string place = "row " + std::to_string(first + at / width) + ", column " + std::to_string(at % width);
  throw checkpoint_error({checkpoint.files()[tensor.file].display,
                          tensor.name,
                          "scale of an FP8 block, " + place,
                          "a positive number up to " + text_of(kLargestScale),
                          text_of(*bad),
                          "",
                          {}});
}

/// Whether every FP8 number times this power of two is a normal number of bf16: they have 4 bits from 2^-9 to 448.
bool keeps_bf16(float scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5f && exponent - 1 >= -117 && exponent - 1 <= 118;
}

std::array<float, 256> all_numbers() {
  std::array<float, 256> numbers;
  for (size_t code = 0; code < numbers.size(); ++code) numbers[code] = f8_e4m3_to_f32(static_cast<uint8_t>(code));
  return numbers;
}

}  // namespace

std::vector<float> read_block_scales(const Checkpoint& checkpoint, const SlotData& data, uint64_t first,
                                     uint64_t count) {
  const ScaleRows rows(data);
  const uint64_t begin = rows.of(first), end = rows.of(first + count - 1) + 1, width = data.block_scales->shape.back();
  std::vector<float> scales((end - begin) * width);
  checkpoint.read_f32(*data.block_scales, begin * width, scales.size(), scales.data());
  check(checkpoint, *data.block_scales, scales, begin);
  return scales;
}

bool fits_bf16(const Checkpoint& checkpoint, const TensorSlot& slot, const SlotData& data) {
  const uint64_t runs = slot.shape.front() / data.row_runs.length;
  const uint64_t rows = data.transposed ? slot.shape.back() : (runs - 1) * data.row_step + data.row_runs.length;
  // A file may have a scale for every number, so they are read in parts.
  const ScaleRows scale_rows(data);
  const uint64_t scale_rows_a_part = std::max<uint64_t>(1, kScalesAPart / data.block_scales->shape.back());
  const uint64_t part = scale_rows_a_part * std::min(scale_rows.rows, scale_rows.block_rows);
  for (uint64_t first = 0; first < rows; first += part) {
    const std::vector<float> scales =
        read_block_scales(checkpoint, data, data.first_row + first, std::min(part, rows - first));
    if (!std::all_of(scales.begin(), scales.end(), keeps_bf16)) return false;
  }
  return true;
}

void read_fp8(const Checkpoint& checkpoint, const SlotData& data, uint64_t first, uint64_t count, float* out) {
  static const std::array<float, 256> numbers = all_numbers();
  if (count == 0) return;
  const uint64_t length = data.tensor->shape.back(), width = data.block_scales->shape.back();
  const uint64_t first_row = first / length, last_row = (first + count - 1) / length;
  const ScaleRows rows(data);
  const std::vector<float> scales = read_block_scales(checkpoint, data, first_row, last_row - first_row + 1);
  std::vector<uint8_t> codes(count);
  checkpoint.read_bytes(*data.tensor, first, count, codes.data());
  // A step is what one row and one scale have in common.
  for (uint64_t done = 0, step = 0; done < count; done += step) {
    const uint64_t row = (first + done) / length, column = (first + done) % length;
    const uint64_t block = column / data.block.columns;
    const float scale = scales[(rows.of(row) - rows.of(first_row)) * width + block];
    step = std::min({(block + 1) * data.block.columns - column, length - column, count - done});
    for (uint64_t i = done; i < done + step; ++i) out[i] = numbers[codes[i]] * scale;
  }
}

}  // namespace sida
