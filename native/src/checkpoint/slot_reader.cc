#include "checkpoint/slot_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "checkpoint/block_scales.h"
#include "checkpoint/finite_blocks.h"
#include "core/checkpoint_error.h"
#include "core/ggml_blocks.h"
#include "core/portable_math.h"
#include "weights/coded_panels.h"
#include "weights/panels.h"
#include "weights/quantize.h"
#include "weights/weight_blocks.h"

namespace sida {
namespace {

struct Rows {
  uint64_t row, count, k;
};

/// Numbers [first, first + count) of the slot's tensor.
void read_numbers(const Checkpoint& checkpoint, const SlotData& data, uint64_t first, uint64_t count, float* out) {
  data.block_scales == nullptr ? checkpoint.read_f32(*data.tensor, first, count, out)
                               : read_fp8(checkpoint, data, first, count, out);
}

/// Every `row_step`th row, with those between them.
void read_stepped(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  std::vector<float> all(((rows.count - 1) * data.row_step + 1) * rows.k);
  read_numbers(checkpoint, data, (data.first_row + rows.row * data.row_step) * rows.k, all.size(), all.data());
  for (uint64_t i = 0; i < rows.count; ++i) {
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(i * data.row_step * rows.k), rows.k, out + i * rows.k);
  }
}

/// Rows of the transpose of the tensor's rows.
void read_transposed(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  const uint64_t length = data.tensor->shape.back(), first = data.first_column + rows.row * data.row_step;
  std::vector<float> span((rows.count - 1) * data.row_step + 1);
  for (uint64_t i = 0; i < rows.k; ++i) {
    read_numbers(checkpoint, data, (data.first_row + i) * length + first, span.size(), span.data());
    for (uint64_t j = 0; j < rows.count; ++j) out[j * rows.k + i] = span[j * data.row_step];
  }
}

/// The tensor's row that holds a row of the slot.
uint64_t tensor_row(const SlotData& data, uint64_t row) {
  if (data.paired_rows == 0) {
    const uint64_t length = data.row_runs.length, run = data.row_runs.place(row / length, data.rows / length);
    return data.first_row + run * data.row_step + row % length;
  }
  const uint64_t half = data.paired_rows / 2, place = row % data.paired_rows;
  return data.first_row + (row - place) + 2 * (place % half) + place / half;
}

void read_blocks(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  std::vector<std::byte> blocks;
  read_block_rows(checkpoint, data, rows.row, rows.count, rows.k, blocks);
  const Dtype dtype = data.tensor->dtype;
  dequantize(dtype, blocks.data(), blocks.size() / dtype_block(dtype).bytes, out);
}

void read_each(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  for (uint64_t i = 0; i < rows.count; ++i) {
    read_numbers(checkpoint, data, tensor_row(data, rows.row + i) * rows.k, rows.k, out + i * rows.k);
  }
}

/// The tensor's column that holds a column of the slot.
uint64_t tensor_column(const Runs& runs, uint64_t column, uint64_t k) {
  return runs.place(column / runs.length, k / runs.length) * runs.length + column % runs.length;
}

void order_columns(const Runs& runs, const Rows& rows, float* out) {
  std::vector<float> row(rows.k);
  for (uint64_t i = 0; i < rows.count; ++i, out += rows.k) {
    for (uint64_t j = 0; j < rows.k; ++j) row[j] = out[tensor_column(runs, j, rows.k)];
    std::ranges::copy(row, out);
  }
}

void take_form(NumberForm form, std::vector<float>& numbers) {
  if (form == NumberForm::kSame) return;
  for (float& number : numbers) {
    number = form == NumberForm::kLessOne ? number + 1 : -static_cast<float>(portable_exp(static_cast<double>(number)));
  }
}

constexpr uint64_t kGroup = 32;
constexpr uint64_t kGroupBytes = kGroup / 2;

/// 2^(scale - 128), half of a group's power: e2m1 values are kept doubled. 255 is no number.
float half_power(const Checkpoint& checkpoint, const TensorInfo& scales, uint8_t scale) {
  if (scale != 255) return std::ldexp(1.0f, scale - 128);
  throw checkpoint_error({checkpoint.files()[scales.file].display,
                          scales.name,
                          "a scale of MXFP4",
                          "a number from 0 to 254",
                          std::to_string(scale),
                          "",
                          {}});
}

void read_mxfp4(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  if (rows.k % kGroup != 0) {
    throw checkpoint_error({checkpoint.files()[data.tensor->file].display,
                            data.tensor->name,
                            "inputs of MXFP4",
                            "a multiple of " + std::to_string(kGroup),
                            std::to_string(rows.k),
                            "",
                            {}});
  }
  const uint64_t groups = rows.k / kGroup, span = (rows.count - 1) * data.row_step + 1;
  const uint64_t first = data.first_row + rows.row * data.row_step;
  std::vector<uint8_t> codes(span * groups * kGroupBytes), scales(span * groups);
  checkpoint.read_bytes(*data.tensor, first * groups * kGroupBytes, codes.size(), codes.data());
  checkpoint.read_bytes(*data.scales, first * groups, scales.size(), scales.data());
  for (uint64_t i = 0; i < rows.count; ++i) {
    for (uint64_t g = 0; g < groups; ++g) {
      const uint64_t group = i * data.row_step * groups + g;
      const float power = half_power(checkpoint, *data.scales, scales[group]);
      const uint8_t* from = codes.data() + group * kGroupBytes;
      float* to = out + i * rows.k + g * kGroup;
      for (uint64_t j = 0; j < kGroupBytes; ++j) {
        to[2 * j] = static_cast<float>(kMxfp4Values[from[j] & 15]) * power;
        to[2 * j + 1] = static_cast<float>(kMxfp4Values[from[j] >> 4]) * power;
      }
    }
  }
}

/// The largest weight that a quantized type can hold: scales of q8_0 and q4_0 are f16.
float largest_weight(WeightFormat format) {
  constexpr float kLargestF16 = 65504;
  if (format == kQ8_0Format) return 127 * kLargestF16;
  if (format == kQ4_0Format) return 8 * kLargestF16;
  return std::numeric_limits<float>::max();
}

/// Row and column of the slot's number `at` in the tensor.
std::string place_of(const SlotData& data, const Rows& rows, uint64_t at) {
  const uint64_t row = rows.row + at / rows.k, column = at % rows.k;
  const uint64_t in_tensor = data.transposed ? data.first_row + column : tensor_row(data, row);
  return "row " + std::to_string(in_tensor) + ", column " +
         std::to_string(data.transposed ? data.first_column + row * data.row_step
                                        : tensor_column(data.column_runs, column, rows.k));
}

}  // namespace

WeightFormat own_format(const SlotData& data) {
  if (data.scales != nullptr) return kMxfp4Format;
  // Blocks do not survive a transposition.
  if (is_blocked(data.tensor->dtype) && !data.transposed) return format_of_blocks(data.tensor->dtype);
  return data.tensor->dtype == Dtype::kBF16 ? kBf16Format : kF32Format;
}

void read_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t count, uint64_t k,
               WeightFormat format, std::vector<float>& out) {
  const Rows rows{row, count, k};
  out.resize(count * k);
  if (data.scales != nullptr) {
    read_mxfp4(checkpoint, data, rows, out.data());
  } else if (has_block_rows(data, k)) {
    read_blocks(checkpoint, data, rows, out.data());
  } else if (data.transposed) {
    read_transposed(checkpoint, data, rows, out.data());
  } else if (data.paired_rows > 0 || data.row_runs != Runs{}) {
    read_each(checkpoint, data, rows, out.data());
  } else if (data.row_step > 1) {
    read_stepped(checkpoint, data, rows, out.data());
  } else {
    read_numbers(checkpoint, data, (data.first_row + row) * k, count * k, out.data());
  }
  if (data.column_runs != Runs{}) order_columns(data.column_runs, rows, out.data());
  take_form(data.form, out);
  if (!quantized(format)) return;
  const float largest = largest_weight(format);
  const auto bad = std::find_if(out.begin(), out.end(), [&](float value) { return !(std::abs(value) <= largest); });
  if (bad == out.end()) return;
  const bool finite = std::isfinite(*bad);
  throw checkpoint_error({checkpoint.files()[data.tensor->file].display,
                          data.tensor->name,
                          "cannot be quantized: " + place_of(data, rows, static_cast<uint64_t>(bad - out.begin())),
                          finite ? "a number up to " + std::to_string(largest) : "a finite number",
                          finite             ? std::to_string(*bad)
                          : std::isnan(*bad) ? "NaN"
                                             : "infinity",
                          "pack it as f32 or bf16",
                          {}});
}

bool has_block_rows(const SlotData& data, uint64_t k) {
  return is_blocked(data.tensor->dtype) && !data.transposed && k % dtype_block(data.tensor->dtype).elements == 0;
}

void read_block_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t count, uint64_t k,
                     std::vector<std::byte>& out) {
  const DtypeBlock block = dtype_block(data.tensor->dtype);
  const uint64_t blocks = k / block.elements, bytes = blocks * block.bytes;
  out.resize(count * bytes);
  // Rows that do not follow each other in the tensor are read one at a time.
  const uint64_t rows = data.in_order() ? count : 1;
  for (uint64_t i = 0; i < count; i += rows) {
    const uint64_t first = tensor_row(data, row + i);
    const std::span<std::byte> part = std::span(out).subspan(i * bytes, rows * bytes);
    checkpoint.read_bytes(*data.tensor, first * bytes, part.size(), part.data());
    check_finite_blocks(checkpoint.files()[data.tensor->file].display, *data.tensor, first * blocks, part);
  }
}

void pack_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t count, uint64_t k,
               WeightFormat format, std::vector<float>& numbers, std::byte* out) {
  // Names a weight that is no number, also of those that are only copied.
  read_rows(checkpoint, data, row, count, k, format, numbers);
  if (has_block_rows(data, k) && own_format(data) == format) {
    std::vector<std::byte> blocks;
    read_block_rows(checkpoint, data, row, count, k, blocks);
    pack_blocks(data.tensor->dtype, blocks.data(), count, k, out);
  } else {
    if (format != kBf16cFormat) return pack_panels(numbers.data(), count, k, format, out);
    const auto crowded = pack_coded_panels(numbers.data(), count, k, out);
    if (!crowded) return;
    throw Error("checkpoint_invalid", checkpoint.files()[data.tensor->file].display + ": " + data.tensor->name + ": " +
                                          crowded->text(k) + "; pack it as bf16");
  }
}

}  // namespace sida
