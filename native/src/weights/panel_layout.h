#pragma once

#include <cstddef>
#include <cstdint>

#include "weights/weight_format.h"

// The layout of a panel of 32 output columns: the codes of all inputs (k), then the format's scales and sums.
//   f32   [k][32] f32
//   bf16  [k/2][32][2] bf16, k rounded up to even: one 32-bit lane carries k and k+1
//   bf16c 32 columns' bases; [k/8] of two planes of bytes and one of nibbles, k rounded up to a multiple of 8; then the
//         escapes (coded_panels.h)
//   int8  [k/4][32][4] codes, k rounded up to a multiple of 4; 32 f32 scales; 32 i32 sums of a column's codes
//   int4  per group: [inputs/8][32][4] bytes, the group's inputs rounded up to a multiple of 8; byte j of a column
//         holds code + 8 of input j in its low nibble and of input 4 + j in its high nibble; then 32 bf16 scales
//   mxfp4 as int4 with groups of 32; a nibble is e2m1 and stands for twice its value, a scale is half of the group's
//   q4_0  as int4 with groups of 32, whose scales are f16
//   q8_0  per group of 32: [inputs/4][32][4] codes, the group's inputs rounded up to a multiple of 4; then 32 f16
//         scales
//   q4_k  per 256 inputs: 32 f16 d, 32 f16 dmin; then per group of 32: [4][32][4] bytes of two codes from 0 to 15,
//         placed as those of int4; then [32][2] bytes s, m. A weight is (d · s) · code - (dmin · m).
//   q6_k  per 256 inputs: 32 f16 d; then per group of 32: [4][32][4] bytes, byte j of word w of a column holds the low
//         4 bits of input 4w + j, above them those of input 16 + 4w + j; [2][32][4] bytes, bits 2w and 2w + 1 of byte j
//         of word h are the high 2 bits of input 16h + 4w + j; then [32][2] bytes s, each for 16 inputs. A weight is
//         (d · s) · (code - 32).
// Each other type, per group: one plane of codes or two, then the scales. No group has padding.
//   4 bits: as int4, [inputs/8][32][4] bytes
//   1 bit (the fifth or the third), of 32 inputs: [32][4] bytes, bit w of byte j belongs to input 4w + j
//   2 bits, of 32 inputs: [2][32][4] bytes, bits 2w and 2w + 1 of byte j of word h belong to input 16h + 4w + j
//   q4_1, q5_1  4 bits (and 1); 32 f16 d, 32 f16 m. A weight is d · code + m.
//   q5_0        4 bits and 1; 32 f16 d. A weight is d · (code - 16).
//   q5_k        as q4_k, with a plane of 1 bit behind that of 4
//   q3_k        per 256 inputs 32 f16 d; 2 bits and 1; [32][2] bytes s, each for 16 inputs. A weight is
//               (d · s) · (code - 4).
//   q2_k        per 256 inputs 32 f16 d, 32 f16 dmin; 2 bits; [32][2] bytes for 16 inputs each, s in the low nibble, m
//               in the high one. A weight is (d · s) · code - (dmin · m).
//   iq4_nl      4 bits; 32 f16 d. A weight is d · table[code] (core/code_tables.h).
//   iq4_xs      per 256 inputs 32 f16 d; per group of 64: 4 bits; [32][2] bytes s, each for 32 inputs. A weight is
//               (d · s) · table[code].
//   iq3_xxs, iq3_s  as iq4_xs, d times the table's unit
//   iq2         as q3_k. A weight is (d · unit · s) · table[code].
// Padding inputs have code 0.
// `static`: files compiled for different instruction sets must not share these functions at link time.
namespace sida {

/// Columns of one weight panel.
inline constexpr size_t kPanelColumns = 32;
/// Bytes of one step of codes: one 32-bit lane a column.
inline constexpr size_t kPanelStepBytes = kPanelColumns * 4;
/// Bytes of one number of 16 bits a column.
inline constexpr size_t kGroupScaleBytes = kPanelColumns * 2;
/// Inputs that share d (and dmin).
inline constexpr size_t kSuperInputs = 256;

/// Inputs in one 32-bit lane; of types with a second plane in a lane of the first.
static constexpr size_t inputs_per_step(WeightType type) {
  if (grouped(type)) return 32U / grouped_type(type).low;
  return type == WeightType::kInt8 ? 4 : type == WeightType::kBf16 ? 2 : 1;
}

/// Bytes of the codes of `inputs` inputs.
static constexpr size_t code_bytes(size_t inputs, WeightType type) {
  const size_t step = inputs_per_step(type), steps = (inputs + step - 1) / step;
  // Types with a second plane have whole steps.
  return steps * kPanelStepBytes + (grouped(type) ? inputs * grouped_type(type).high * kPanelColumns / 8 : 0);
}

/// Bytes of the scales behind a group's codes.
static constexpr size_t scale_bytes(WeightType type) { return grouped_type(type).words * kGroupScaleBytes; }

/// Bytes in front of the first group of 256 inputs.
static constexpr size_t super_bytes(WeightType type) { return grouped_type(type).supers * kGroupScaleBytes; }

/// Inputs that share a scale, of a grouped type.
static constexpr size_t scaled_inputs(WeightFormat format) { return format.group / grouped_type(format.type).parts; }

/// Where input `k` of a grouped panel's group starts; `k` is a multiple of the group.
static constexpr size_t group_offset(size_t k, WeightFormat format) {
  return k / format.group * (code_bytes(format.group, format.type) + scale_bytes(format.type)) +
         (k / kSuperInputs + 1) * super_bytes(format.type);
}

/// Inputs of a bf16c panel whose bytes lie together: one plane of four inputs' signs and mantissas, one of the others',
/// and one of codes.
inline constexpr size_t kCodedInputs = 8, kCodedBytes = 3 * kPanelStepBytes;

/// Inputs whose escapes are found by one number of CodedPanel::starts.
inline constexpr size_t kEscapeInputs = 32;
/// Escapes of a panel that it has room for, for each kEscapeInputs: 0.4 % of the weights.
inline constexpr size_t kEscapesPerStart = 4;

static constexpr size_t escape_starts(size_t k) { return (k + kEscapeInputs - 1) / kEscapeInputs; }
static constexpr size_t most_escapes(size_t k) { return kEscapesPerStart * escape_starts(k); }
static constexpr size_t decoded_inputs(size_t k) { return (k + kCodedInputs - 1) / kCodedInputs * kCodedInputs; }
/// Where a bf16c panel's starts lie, and behind them its escapes.
static constexpr size_t starts_offset(size_t k) {
  return kPanelStepBytes + decoded_inputs(k) / kCodedInputs * kCodedBytes;
}
static constexpr size_t escapes_offset(size_t k) {
  return starts_offset(k) + (escape_starts(k) + 2) / 2 * 2 * sizeof(uint16_t);
}

/// The byte of a plane of bf16c, of four inputs, that an input of a column has. Two neighbours of four columns come
/// first: interleaved with the bytes of their exponents they are these columns of a bf16 panel.
static constexpr size_t coded_byte(size_t input, size_t column) {
  return column / 4 * 16 + input % 4 / 2 * 8 + column % 4 * 2 + input % 2;
}

static constexpr size_t panel_stride(size_t k, WeightFormat format) {
  if (format.type == WeightType::kBf16c) {
    return (escapes_offset(k) + most_escapes(k) * sizeof(uint32_t) + 63) / 64 * 64;
  }
  if (!grouped(format.type)) {
    return code_bytes(k, format.type) + (format.type == WeightType::kInt8 ? kPanelColumns * 8 : 0);
  }
  const size_t groups = k / format.group, rest = k % format.group;
  return groups * (code_bytes(format.group, format.type) + scale_bytes(format.type)) +
         (rest == 0 ? 0 : code_bytes(rest, format.type) + scale_bytes(format.type)) +
         (k + kSuperInputs - 1) / kSuperInputs * super_bytes(format.type);
}

}  // namespace sida
