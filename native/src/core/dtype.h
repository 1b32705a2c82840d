#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sida {

/// Every element type that safetensors defines, and behind kC64 the block types of GGUF that are read.
enum class Dtype : uint8_t {
  kF32,
  kBF16,
  kF16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF6E2M3,
  kF6E3M2,
  kF4,
  kC64,
  kQ4_0,
  kQ8_0,
  kQ4_K,
  kQ6_K,
  kGgmlMxfp4,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ5_K,
  kQ3_K,
  kQ2_K,
  kIq4Nl,
  kIq4Xs,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq3Xxs,
  kIq3S,
};

/// Elements that are stored together, and their bytes: one element of the plain types.
struct DtypeBlock {
  uint32_t elements;
  uint32_t bytes;
};

DtypeBlock dtype_block(Dtype dtype);

/// Bits of one element of a safetensors type: 4 or 6 for the sub-byte types.
int dtype_bits(Dtype dtype);

/// Whether a number has its own bits in checkpoint data of that type: F32, BF16 or F16.
bool is_float(Dtype dtype);

/// Whether elements share a scale in blocks of the type, as GGUF files hold them.
bool is_blocked(Dtype dtype);

/// The name in safetensors or GGUF: "F32", "BF16", "Q8_0", …
const char* dtype_name(Dtype dtype);

/// The type of that safetensors name; nothing where the name is unknown.
std::optional<Dtype> parse_dtype(std::string_view name);

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Rounds to nearest even. A NaN stays a quiet NaN of the same sign.
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// Exact, denormals included.
float f16_to_f32(uint16_t bits);

/// Rounds to nearest even; infinity beyond the largest f16. A NaN stays a quiet NaN of the same sign.
uint16_t f32_to_f16(float value);

/// Array forms. Input and output do not overlap.
void bf16_to_f32(const uint16_t* in, size_t count, float* out);
void f16_to_f32(const uint16_t* in, size_t count, float* out);

}  // namespace sida
