#include "weights/grouped_row.h"

#include <algorithm>

#include "core/dtype.h"
#include "core/ggml_blocks.h"
#include "weights/quantize.h"

namespace sida {
namespace {

/// Bits of one code, from `shift` on in a byte of a group.
struct Bits {
  size_t byte;
  unsigned shift;
};

/// Bits of a code in the first plane.
Bits code_place(WeightType type, size_t input, size_t column) {
  const size_t lane = column * 4 + input % 4;
  const auto at = [&](size_t step, size_t shift) {
    return Bits{step * kPanelStepBytes + lane, static_cast<unsigned>(shift)};
  };
  switch (grouped_type(type).low) {
    case 8:
      return at(input / 4, 0);
    case 2:
      return at(input / 16, input % 16 / 4 * 2);
    default:
      return type == WeightType::kQ6_K ? at(input % 16 / 4, input / 16 * 4) : at(input / 8, input % 8 / 4 * 4);
  }
}

/// And in the second, of 32 inputs.
Bits high_place(WeightType type, size_t input, size_t column) {
  const GroupedType of = grouped_type(type);
  const size_t lane = of.low * kPanelStepBytes + column * 4 + input % 4;
  if (of.high == 1) return {lane, static_cast<unsigned>(input / 4)};
  return {lane + input / 16 * kPanelStepBytes, static_cast<unsigned>(input % 16 / 4 * 2)};
}

/// What a code stands for.
int number_of(WeightType type, uint8_t code) {
  if (type == WeightType::kMxfp4) return kMxfp4Values[code];
  if (type == WeightType::kQ8_0) return static_cast<int8_t>(code);
  const GroupedType of = grouped_type(type);
  return of.table == CodeTable::kNone ? code - of.zero : code_numbers(of.table).of[code];
}

/// How many numbers 256 inputs share.
size_t supers_of(WeightType type) { return grouped_type(type).supers; }

/// Where those of 256 inputs lie in a panel.
size_t super_offset(size_t block, WeightFormat format) {
  return group_offset(block * kSuperInputs, format) - super_bytes(format.type);
}

/// What a code of 0 is stored as.
uint8_t zero_code(WeightType type) { return type == WeightType::kInt4 || type == WeightType::kQ4_0 ? 8 : 0; }

}  // namespace

GroupedRow::GroupedRow(size_t k, WeightFormat of)
    : format(of),
      codes(k),
      scales((k + of.group - 1) / of.group * grouped_type(of.type).words),
      supers((k + kSuperInputs - 1) / kSuperInputs * supers_of(of.type)) {}

float GroupedRow::weight(size_t i) const {
  const GroupedType of = grouped_type(format.type);
  const uint16_t* words = &scales[i / format.group * of.words];
  const auto number = static_cast<float>(number_of(format.type, codes[i]));
  const auto times = [](int code, float by) { return static_cast<float>(code) * by; };
  if (of.supers == 0) {
    const bool bf16 = format.type == WeightType::kInt4 || format.type == WeightType::kMxfp4;
    const float weight = number * (bf16 ? bf16_to_f32(*words) : f16_to_f32(*words));
    return of.minimum ? weight + f16_to_f32(words[1]) : weight;
  }
  const uint16_t* super = &supers[i / kSuperInputs * of.supers];
  const size_t part = i % format.group / scaled_inputs(format);
  const float d = f16_to_f32(*super);
  if (!of.minimum) return number * times(static_cast<int8_t>(*words >> 8 * part), d) * code_numbers(of.table).unit;
  // A part has a byte for both, or where it is the only one a byte for each.
  const bool one = of.parts == 1;
  const int scale = one ? *words & 255 : *words >> 8 * part & 15;
  const int minimum = one ? *words >> 8 : *words >> (8 * part + 4) & 15;
  return number * times(scale, d) - times(minimum, f16_to_f32(super[1]));
}

void GroupedRow::clear() {
  std::fill(codes.begin(), codes.end(), zero_code(format.type));
  std::fill(scales.begin(), scales.end(), uint16_t{0});
  std::fill(supers.begin(), supers.end(), uint16_t{0});
}

void GroupedRow::quantize(const float* weight) {
  std::vector<int8_t> rounded(format.group);
  for (size_t begin = 0; begin < k(); begin += format.group) {
    const size_t inputs = std::min<size_t>(format.group, k() - begin);
    uint16_t& scale = scales[begin / format.group];
    if (format.type == WeightType::kMxfp4) {
      scale = quantize_mxfp4(weight + begin, inputs, &codes[begin]);
      continue;
    }
    const auto quantizer = format.type == WeightType::kQ8_0   ? quantize_q8_0
                           : format.type == WeightType::kQ4_0 ? quantize_q4_0
                                                              : quantize_int4;
    scale = quantizer(weight + begin, inputs, rounded.data());
    for (size_t i = 0; i < inputs; ++i) codes[begin + i] = static_cast<uint8_t>(rounded[i] + zero_code(format.type));
  }
}

void GroupedRow::put(size_t column, std::byte* panel) const {
  const WeightType type = format.type;
  for (size_t begin = 0; begin < k(); begin += format.group) {
    const size_t inputs = std::min<size_t>(format.group, k() - begin);
    std::byte* group = panel + group_offset(begin, format);
    const auto add = [&](size_t input, unsigned code) {
      const Bits place = code_place(type, input, column);
      group[place.byte] |= static_cast<std::byte>(code << place.shift);
    };
    for (size_t i = 0; i < inputs; ++i) add(i, codes[begin + i]);
    reinterpret_cast<uint16_t*>(group + code_bytes(inputs, type))[column] = scales[begin / format.group];
    for (size_t i = inputs; i % inputs_per_step(type) != 0; ++i) add(i, zero_code(type));
  }
}

void GroupedRow::take(size_t column, const std::byte* panel) {
  const WeightType type = format.type;
  const GroupedType of = grouped_type(type);
  for (size_t begin = 0; begin < k(); begin += format.group) {
    const size_t inputs = std::min<size_t>(format.group, k() - begin);
    const std::byte* group = panel + group_offset(begin, format);
    const auto bits = [&](Bits place, unsigned count) {
      return static_cast<unsigned>(group[place.byte]) >> place.shift & ((1U << count) - 1);
    };
    for (size_t i = 0; i < inputs; ++i) {
      unsigned code = bits(code_place(type, i, column), of.low);
      if (of.high > 0) code |= bits(high_place(type, i, column), of.high) << of.low;
      codes[begin + i] = static_cast<uint8_t>(code);
    }
    const auto* words = reinterpret_cast<const uint16_t*>(group + code_bytes(inputs, type));
    for (size_t w = 0; w < of.words; ++w) {
      scales[begin / format.group * of.words + w] = words[w * kPanelColumns + column];
    }
  }
  for (size_t i = 0; i < supers.size(); ++i) {
    const std::byte* super = panel + super_offset(i / supers_of(type), format);
    supers[i] = reinterpret_cast<const uint16_t*>(super)[i % supers_of(type) * kPanelColumns + column];
  }
}

}  // namespace sida
