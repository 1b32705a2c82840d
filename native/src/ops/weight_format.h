#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sida {

/// Element type of a packed weight matrix.
enum class WeightType : uint8_t {
  kF32,
  kBf16,
  kInt8,
  kInt4,
  kMxfp4,  ///< e2m1 with one power of two for 32 inputs (OCP Microscaling Formats 1.0, section 5.3)
};

struct WeightFormat {
  WeightType type = WeightType::kF32;
  /// Inputs (k) that share a scale, of grouped types; 0 for the others.
  uint32_t group = 0;

  bool operator==(const WeightFormat&) const = default;
};

inline constexpr WeightFormat kF32Format{WeightType::kF32, 0};
inline constexpr WeightFormat kBf16Format{WeightType::kBf16, 0};
inline constexpr WeightFormat kMxfp4Format{WeightType::kMxfp4, 32};

/// Whether groups of inputs have a scale of their own, behind 4-bit codes.
constexpr bool grouped(WeightType type) { return type == WeightType::kInt4 || type == WeightType::kMxfp4; }

constexpr bool quantized(WeightFormat format) {
  return format.type == WeightType::kInt8 || grouped(format.type);
}

constexpr const char* weight_type_name(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return "f32";
    case WeightType::kBf16:
      return "bf16";
    case WeightType::kInt8:
      return "int8";
    case WeightType::kInt4:
      return "int4";
    case WeightType::kMxfp4:
      break;
  }
  return "mxfp4";
}

/// The weights that a format is for. Experts may have any type, dense weights none of 4 bits.
enum class WeightRole : uint8_t { kExperts, kDense };

/// A callback that throws the caller's error. `field` is "dtype" or "group".
using FormatFault =
    std::function<void(const std::string& field, const std::string& expected, const std::string& found)>;

/// The format that a manifest or an option names; calls `fault` where no such format exists.
WeightFormat named_weight_format(WeightRole role, std::string_view dtype, std::optional<uint64_t> group,
                                 const FormatFault& fault);

}  // namespace sida
