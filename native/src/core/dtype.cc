#include "core/dtype.h"

#include <iterator>

namespace sida {
namespace {

struct DtypeRow {
  const char* name;
  DtypeBlock block;
};

// In the order of the enumeration.
constexpr DtypeRow kDtypes[] = {
    {"F32", {1, 4}},         {"BF16", {1, 2}},        {"F16", {1, 2}},        {"F64", {1, 8}},
    {"I8", {1, 1}},          {"U8", {1, 1}},          {"I16", {1, 2}},        {"U16", {1, 2}},
    {"I32", {1, 4}},         {"U32", {1, 4}},         {"I64", {1, 8}},        {"U64", {1, 8}},
    {"BOOL", {1, 1}},        {"F8_E4M3", {1, 1}},     {"F8_E5M2", {1, 1}},    {"F8_E8M0", {1, 1}},
    {"F8_E4M3FNUZ", {1, 1}}, {"F8_E5M2FNUZ", {1, 1}}, {"F6_E2M3", {4, 3}},    {"F6_E3M2", {4, 3}},
    {"F4", {2, 1}},          {"C64", {1, 8}},         {"Q4_0", {32, 18}},     {"Q8_0", {32, 34}},
    {"Q4_K", {256, 144}},    {"Q6_K", {256, 210}},    {"MXFP4", {32, 17}},    {"Q4_1", {32, 20}},
    {"Q5_0", {32, 22}},      {"Q5_1", {32, 24}},      {"Q5_K", {256, 176}},   {"Q3_K", {256, 110}},
    {"Q2_K", {256, 84}},     {"IQ4_NL", {32, 18}},    {"IQ4_XS", {256, 136}}, {"IQ2_XXS", {256, 66}},
    {"IQ2_XS", {256, 74}},   {"IQ2_S", {256, 82}},    {"IQ3_XXS", {256, 98}}, {"IQ3_S", {256, 110}},
};
static_assert(std::size(kDtypes) == static_cast<size_t>(Dtype::kIq3S) + 1);

}  // namespace

DtypeBlock dtype_block(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].block; }

int dtype_bits(Dtype dtype) {
  const DtypeBlock block = dtype_block(dtype);
  return static_cast<int>(8 * block.bytes / block.elements);
}

bool is_float(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16; }

bool is_blocked(Dtype dtype) { return dtype > Dtype::kC64; }

const char* dtype_name(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (size_t i = 0; i <= static_cast<size_t>(Dtype::kC64); ++i) {
    if (name == kDtypes[i].name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    // A denormal is mantissa * 2^-24, which a float holds exactly.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    // In steps of the smallest f16, 2^-24: the sum's last bit counts them.
    const float steps = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(steps) - 0x3f000000u));
  }
  // From a bias of 127 to one of 15. A carry of the mantissa may reach infinity.
  const uint32_t rounded = magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

void bf16_to_f32(const uint16_t* in, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = bf16_to_f32(in[i]);
}

void f16_to_f32(const uint16_t* in, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f16_to_f32(in[i]);
}

}  // namespace sida
