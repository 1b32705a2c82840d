#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/weight_format.h"

// The layout of a panel of 32 output columns: the codes of all inputs (k), then the format's scales and sums.
//   f32   [k][32] f32
//   bf16  [k/2][32][2] bf16, k rounded up to even: one 32-bit lane carries k and k+1
//   int8  [k/4][32][4] codes, k rounded up to a multiple of 4; 32 f32 scales; 32 i32 sums of a column's codes
//   int4  per group: [inputs/8][32][4] bytes, the group's inputs rounded up to a multiple of 8; byte j of a column
//         holds code + 8 of input j in its low nibble and of input 4 + j in its high nibble; then 32 bf16 scales
//   mxfp4 as int4 with groups of 32; a nibble is e2m1 and stands for twice its value, a scale is half of the group's
// Padding inputs have code 0.
// `static`: files compiled for different instruction sets must not share these functions at link time.
namespace sida {

/// Columns of one weight panel.
inline constexpr size_t kPanelColumns = 32;
/// Bytes of one step of codes: one 32-bit lane a column.
inline constexpr size_t kPanelStepBytes = kPanelColumns * 4;
/// Bytes of an int4 group's scales.
inline constexpr size_t kGroupScaleBytes = kPanelColumns * 2;

/// Inputs in one 32-bit lane.
static constexpr size_t inputs_per_step(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return 1;
    case WeightType::kBf16:
      return 2;
    case WeightType::kInt8:
      return 4;
    case WeightType::kInt4:
    case WeightType::kMxfp4:
      break;
  }
  return 8;
}

/// Bytes of the codes of `inputs` inputs.
static constexpr size_t code_bytes(size_t inputs, WeightType type) {
  const size_t step = inputs_per_step(type);
  return (inputs + step - 1) / step * kPanelStepBytes;
}

/// Where input `k` of an int4 panel's group starts; `k` is a multiple of the group.
static constexpr size_t int4_group_offset(size_t k, size_t group) {
  return k / group * (code_bytes(group, WeightType::kInt4) + kGroupScaleBytes);
}

static constexpr size_t panel_stride(size_t k, WeightFormat format) {
  switch (format.type) {
    case WeightType::kF32:
    case WeightType::kBf16:
      return code_bytes(k, format.type);
    case WeightType::kInt8:
      return code_bytes(k, format.type) + kPanelColumns * 8;
    case WeightType::kInt4:
    case WeightType::kMxfp4:
      break;
  }
  const size_t rest = k % format.group;
  return int4_group_offset(k - rest, format.group) +
         (rest == 0 ? 0 : code_bytes(rest, WeightType::kInt4) + kGroupScaleBytes);
}

}  // namespace sida
