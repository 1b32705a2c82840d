#include "checkpoint/slot_reader.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/checkpoint_error.h"
#include "ops/quantize.h"

namespace sida {
namespace {

struct Rows {
  uint64_t row, count, k;
};

/// Every `row_step`th row, with those between them.
void read_stepped(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  std::vector<float> all(((rows.count - 1) * data.row_step + 1) * rows.k);
  checkpoint.read_f32(*data.tensor, (data.first_row + rows.row * data.row_step) * rows.k, all.size(), all.data());
  for (uint64_t i = 0; i < rows.count; ++i) {
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(i * data.row_step * rows.k), rows.k, out + i * rows.k);
  }
}

/// Rows of the transpose of the tensor's rows.
void read_transposed(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
  const uint64_t length = data.tensor->shape.back(), first = data.first_column + rows.row * data.row_step;
  std::vector<float> span((rows.count - 1) * data.row_step + 1);
  for (uint64_t i = 0; i < rows.k; ++i) {
    checkpoint.read_f32(*data.tensor, (data.first_row + i) * length + first, span.size(), span.data());
    for (uint64_t j = 0; j < rows.count; ++j) out[j * rows.k + i] = span[j * data.row_step];
  }
}

constexpr uint64_t kGroup = 32;
constexpr uint64_t kGroupBytes = kGroup / 2;

/// 2^(scale - 128), half of a group's power: e2m1 values are kept doubled. Below 2 it would be subnormal, which some
/// matrix units take for 0; 255 is no number.
float half_power(const Checkpoint& checkpoint, const TensorInfo& scales, uint8_t scale) {
  if (scale >= 2 && scale != 255) return std::ldexp(1.0f, scale - 128);
  throw checkpoint_error({checkpoint.files()[scales.file].display(), scales.name, "a scale of MXFP4",
                          "a number from 2 to 254", std::to_string(scale), "", {}});
}

void read_mxfp4(const Checkpoint& checkpoint, const SlotData& data, const Rows& rows, float* out) {
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

/// Row and column of the slot's number `at` in the tensor.
std::string place_of(const SlotData& data, const Rows& rows, uint64_t at) {
  const uint64_t row = rows.row + at / rows.k, column = at % rows.k;
  const uint64_t stepped = row * data.row_step;
  const uint64_t tensor_row = data.first_row + (data.transposed ? column : stepped);
  return "row " + std::to_string(tensor_row) + ", column " +
         std::to_string(data.transposed ? data.first_column + stepped : column);
}

}  // namespace

void read_rows(const Checkpoint& checkpoint, const SlotData& data, uint64_t row, uint64_t count, uint64_t k,
               WeightFormat format, std::vector<float>& out) {
  const Rows rows{row, count, k};
  out.resize(count * k);
  if (data.scales != nullptr) {
    read_mxfp4(checkpoint, data, rows, out.data());
  } else if (data.transposed) {
    read_transposed(checkpoint, data, rows, out.data());
  } else if (data.row_step > 1) {
    read_stepped(checkpoint, data, rows, out.data());
  } else {
    checkpoint.read_f32(*data.tensor, (data.first_row + row) * k, count * k, out.data());
  }
  if (!quantized(format)) return;
  const auto bad = std::find_if(out.begin(), out.end(), [](float value) { return !std::isfinite(value); });
  if (bad == out.end()) return;
  throw checkpoint_error({checkpoint.files()[data.tensor->file].display(),
                          data.tensor->name,
                          "cannot be quantized: " + place_of(data, rows, static_cast<uint64_t>(bad - out.begin())),
                          "a finite number",
                          std::isnan(*bad) ? "NaN" : "infinity",
                          "pack it as f32 or bf16",
                          {}});
}

}  // namespace sida
