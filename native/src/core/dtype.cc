#include "core/dtype.h"

#include <iterator>

namespace sida {
namespace {

struct DtypeRow {
  const char* name;
  int bits;
};

// In the order of the enumeration.
constexpr DtypeRow kDtypes[] = {
    {"F32", 32},    {"BF16", 16},   {"F16", 16},    {"F64", 64},    {"I8", 8},          {"U8", 8},
    {"I16", 16},    {"U16", 16},    {"I32", 32},    {"U32", 32},    {"I64", 64},        {"U64", 64},
    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64},
};
static_assert(std::size(kDtypes) == static_cast<size_t>(Dtype::kC64) + 1);

}  // namespace

int dtype_bits(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bits; }

bool is_float(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16; }

const char* dtype_name(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < std::size(kDtypes); ++i) {
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

void bf16_to_f32(const uint16_t* in, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = bf16_to_f32(in[i]);
}

void f16_to_f32(const uint16_t* in, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f16_to_f32(in[i]);
}

}  // namespace sida
