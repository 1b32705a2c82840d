#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sida {

/// Element type of a packed weight matrix. The last five are also types of GGUF files (core/ggml_blocks.h).
enum class WeightType : uint8_t {
  kF32,
  kBf16,
  kInt8,
  kInt4,
  kMxfp4,  ///< e2m1 with one power of two for 32 inputs (OCP Microscaling Formats 1.0, section 5.3)
  kQ8_0,   ///< 8-bit codes with an f16 scale for 32 inputs
  kQ4_0,   ///< 4-bit codes with an f16 scale for 32 inputs
  kQ4_K,   ///< 4-bit codes; for 32 inputs a scale and a minimum of 6 bits each, both scaled in f16 for 256
  kQ6_K,   ///< 6-bit codes; for 16 inputs a scale of 8 bits, scaled in f16 for 256
};

struct WeightFormat {
  WeightType type = WeightType::kF32;
  /// Inputs (k) whose scales lie together, of grouped types; 0 for the others.
  uint32_t group = 0;

  bool operator==(const WeightFormat&) const = default;
};

inline constexpr WeightFormat kF32Format{WeightType::kF32, 0};
inline constexpr WeightFormat kBf16Format{WeightType::kBf16, 0};
inline constexpr WeightFormat kInt8Format{WeightType::kInt8, 0};
inline constexpr WeightFormat kMxfp4Format{WeightType::kMxfp4, 32};
inline constexpr WeightFormat kQ8_0Format{WeightType::kQ8_0, 32};
inline constexpr WeightFormat kQ4_0Format{WeightType::kQ4_0, 32};
inline constexpr WeightFormat kQ4_KFormat{WeightType::kQ4_K, 32};
inline constexpr WeightFormat kQ6_KFormat{WeightType::kQ6_K, 32};

/// Whether groups of inputs have scales of their own, behind their codes.
constexpr bool grouped(WeightType type) { return type > WeightType::kInt8; }

constexpr bool quantized(WeightFormat format) { return format.type > WeightType::kBf16; }

/// Whether 256 inputs share further scales. No matrix of another k can have such a type, and sida only copies it.
constexpr bool in_super_blocks(WeightType type) { return type == WeightType::kQ4_K || type == WeightType::kQ6_K; }

/// Names that matrices of one kind have types of their own.
inline constexpr const char* kMixedFormats = "mixed";

constexpr const char* weight_type_name(WeightType type) {
  constexpr const char* kNames[] = {"f32", "bf16", "int8", "int4", "mxfp4", "q8_0", "q4_0", "q4_k", "q6_k"};
  return kNames[static_cast<size_t>(type)];
}

/// The weights that a format is for. Experts may have any type, dense weights any but int4.
enum class WeightRole : uint8_t { kExperts, kDense };

/// A callback that throws the caller's error. `field` is "dtype" or "group".
using FormatFault =
    std::function<void(const std::string& field, const std::string& expected, const std::string& found)>;

/// The format that a manifest or an option names; calls `fault` where no such format exists.
WeightFormat named_weight_format(WeightRole role, std::string_view dtype, std::optional<uint64_t> group,
                                 const FormatFault& fault);

}  // namespace sida
