#include "weights/grouped_row.h"

#include <algorithm>

#include "core/dtype.h"
#include "weights/quantize.h"

namespace sida {
namespace {

/// Bits of one code, from `shift` on in a byte of a group.
struct Bits {
  size_t byte;
  unsigned shift;
};

Bits code_place(WeightType type, size_t input, size_t column) {
  const size_t lane = column * 4 + input % 4;
  if (type == WeightType::kQ8_0) return {input / 4 * kPanelStepBytes + lane, 0};
  if (type == WeightType::kQ6_K) return {input % 16 / 4 * kPanelStepBytes + lane, input < 16 ? 0U : 4U};
  return {input / 8 * kPanelStepBytes + lane, input % 8 < 4 ? 0U : 4U};
}

/// Of the high 2 bits of a code of 6.
Bits high_place(size_t input, size_t column) {
  return {(4 + input / 16) * kPanelStepBytes + column * 4 + input % 4, static_cast<unsigned>(input % 16 / 4 * 2)};
}

/// How many numbers 256 inputs share.
size_t supers_of(WeightType type) { return super_bytes(type) / kGroupScaleBytes; }

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
      scales((k + of.group - 1) / of.group),
      supers((k + kSuperInputs - 1) / kSuperInputs * supers_of(of.type)) {}

float GroupedRow::weight(size_t i) const {
  const uint16_t scale = scales[i / format.group];
  const int code = codes[i];
  const auto times = [](int number, float by) { return static_cast<float>(number) * by; };
  switch (format.type) {
    case WeightType::kMxfp4:
      return times(kMxfp4Values[code], bf16_to_f32(scale));
    case WeightType::kQ8_0:
      return times(static_cast<int8_t>(code), f16_to_f32(scale));
    case WeightType::kQ4_0:
      return times(code - 8, f16_to_f32(scale));
    case WeightType::kQ4_K: {
      const uint16_t* super = &supers[i / kSuperInputs * 2];
      return times(code, times(scale & 255, f16_to_f32(super[0]))) - times(scale >> 8, f16_to_f32(super[1]));
    }
    case WeightType::kQ6_K: {
      const int own = i % 32 < 16 ? scale & 255 : scale >> 8;
      return times(code - 32, times(static_cast<int8_t>(own), f16_to_f32(supers[i / kSuperInputs])));
    }
    default:
      return times(code - 8, bf16_to_f32(scale));
  }
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
    const auto add = [&](Bits place, unsigned bits) {
      group[place.byte] |= static_cast<std::byte>(bits << place.shift);
    };
    for (size_t i = 0; i < inputs; ++i) {
      const unsigned code = codes[begin + i];
      add(code_place(type, i, column), type == WeightType::kQ6_K ? code & 15 : code);
      if (type == WeightType::kQ6_K) add(high_place(i, column), code >> 4);
    }
    reinterpret_cast<uint16_t*>(group + code_bytes(inputs, type))[column] = scales[begin / format.group];
    for (size_t i = inputs; i % inputs_per_step(type) != 0; ++i) add(code_place(type, i, column), zero_code(type));
  }
  for (size_t i = 0; i < supers.size(); ++i) {
    std::byte* super = panel + super_offset(i / supers_of(type), format);
    reinterpret_cast<uint16_t*>(super)[i % supers_of(type) * kPanelColumns + column] = supers[i];
  }
}

void GroupedRow::take(size_t column, const std::byte* panel) {
  const WeightType type = format.type;
  for (size_t begin = 0; begin < k(); begin += format.group) {
    const size_t inputs = std::min<size_t>(format.group, k() - begin);
    const std::byte* group = panel + group_offset(begin, format);
    const auto bits = [&](Bits place, unsigned mask) {
      return static_cast<unsigned>(group[place.byte]) >> place.shift & mask;
    };
    for (size_t i = 0; i < inputs; ++i) {
      unsigned code = bits(code_place(type, i, column), type == WeightType::kQ8_0 ? 255 : 15);
      if (type == WeightType::kQ6_K) code |= bits(high_place(i, column), 3) << 4;
      codes[begin + i] = static_cast<uint8_t>(code);
    }
    scales[begin / format.group] = reinterpret_cast<const uint16_t*>(group + code_bytes(inputs, type))[column];
  }
  for (size_t i = 0; i < supers.size(); ++i) {
    const std::byte* super = panel + super_offset(i / supers_of(type), format);
    supers[i] = reinterpret_cast<const uint16_t*>(super)[i % supers_of(type) * kPanelColumns + column];
  }
}

}  // namespace sida
