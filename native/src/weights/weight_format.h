#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/code_tables.h"

namespace sida {

/// Element type of a packed weight matrix. From kMxfp4 on they are types of GGUF files (core/ggml_blocks.h).
enum class WeightType : uint8_t {
  kF32,
  kBf16,
  kBf16c,  ///< the numbers of bf16 in 12 bits: exponents are codes (coded_panels.h)
  kInt8,
  kInt4,
  kMxfp4,  ///< e2m1 with one power of two for 32 inputs (OCP Microscaling Formats 1.0, section 5.3)
  kQ8_0,   ///< 8-bit codes with an f16 scale for 32 inputs
  kQ4_0,   ///< 4-bit codes with an f16 scale for 32 inputs
  kQ4_K,   ///< 4-bit codes; for 32 inputs a scale and a minimum of 6 bits each, both scaled in f16 for 256
  kQ6_K,   ///< 6-bit codes; for 16 inputs a scale of 8 bits, scaled in f16 for 256
  kQ4_1,   ///< 4-bit codes with an f16 scale and an f16 minimum for 32 inputs
  kQ5_0,   ///< 5-bit codes with an f16 scale for 32 inputs
  kQ5_1,   ///< 5-bit codes with an f16 scale and an f16 minimum for 32 inputs
  kQ5_K,   ///< 5-bit codes with scales and minimums as of q4_k
  kQ3_K,   ///< 3-bit codes; for 16 inputs a scale of 6 bits, scaled in f16 for 256
  kQ2_K,   ///< 2-bit codes; for 16 inputs a scale and a minimum of 4 bits each, both scaled in f16 for 256
  kIq4Nl,  ///< 4-bit places in a table of numbers, with an f16 scale for 32 inputs
  kIq4Xs,  ///< the same; for 32 inputs a scale of 6 bits, scaled in f16 for 256
  kIq2,    ///< 3-bit places in a table, of three GGUF types; for 16 inputs a scale of 5 bits, scaled in f16 for 256
  /// 4-bit places in a table; for 32 inputs a scale of 5 bits, scaled in f16 for 256.
  kIq3Xxs,
  kIq3S,  ///< the same with another table
};

/// How a grouped type stores its inputs. Of int4, formats choose the group.
struct GroupedType {
  uint8_t group;   ///< inputs whose scales lie together
  uint8_t parts;   ///< of a group, each with a scale
  uint8_t low;     ///< bits of a code in the first plane
  uint8_t high;    ///< and in the second
  uint8_t words;   ///< of 16 bits for a group: its scales
  uint8_t supers;  ///< f16 numbers for 256 inputs
  uint8_t zero;    ///< code of 0, as products of activations in 8 bits take it
  bool minimum;    ///< a number is added to all of a part
  /// Whose places codes are.
  CodeTable table = CodeTable::kNone;
};

struct WeightFormat {
  WeightType type = WeightType::kF32;
  /// Inputs (k) whose scales lie together, of grouped types; 0 for the others.
  uint32_t group = 0;

  bool operator==(const WeightFormat&) const = default;
};

inline constexpr WeightFormat kF32Format{WeightType::kF32, 0};
inline constexpr WeightFormat kBf16Format{WeightType::kBf16, 0};
inline constexpr WeightFormat kBf16cFormat{WeightType::kBf16c, 0};
inline constexpr WeightFormat kInt8Format{WeightType::kInt8, 0};
inline constexpr WeightFormat kMxfp4Format{WeightType::kMxfp4, 32};
inline constexpr WeightFormat kQ8_0Format{WeightType::kQ8_0, 32};
inline constexpr WeightFormat kQ4_0Format{WeightType::kQ4_0, 32};
inline constexpr WeightFormat kQ4_KFormat{WeightType::kQ4_K, 32};
inline constexpr WeightFormat kQ6_KFormat{WeightType::kQ6_K, 32};
inline constexpr WeightFormat kQ4_1Format{WeightType::kQ4_1, 32};
inline constexpr WeightFormat kQ5_0Format{WeightType::kQ5_0, 32};
inline constexpr WeightFormat kQ5_1Format{WeightType::kQ5_1, 32};
inline constexpr WeightFormat kQ5_KFormat{WeightType::kQ5_K, 32};
inline constexpr WeightFormat kQ3_KFormat{WeightType::kQ3_K, 32};
inline constexpr WeightFormat kQ2_KFormat{WeightType::kQ2_K, 32};
inline constexpr WeightFormat kIq4NlFormat{WeightType::kIq4Nl, 32};
inline constexpr WeightFormat kIq4XsFormat{WeightType::kIq4Xs, 64};
inline constexpr WeightFormat kIq2Format{WeightType::kIq2, 32};
inline constexpr WeightFormat kIq3XxsFormat{WeightType::kIq3Xxs, 64};
inline constexpr WeightFormat kIq3SFormat{WeightType::kIq3S, 64};

/// Whether groups of inputs have scales of their own, behind their codes.
constexpr bool grouped(WeightType type) { return type > WeightType::kInt8; }

constexpr bool quantized(WeightFormat format) { return format.type > WeightType::kBf16c; }

/// Whether products take the weights as bf16.
constexpr bool has_bf16(WeightType type) { return type == WeightType::kBf16 || type == WeightType::kBf16c; }

/// `static`, as in panel_layout.h.
static constexpr GroupedType grouped_type(WeightType type) {
  constexpr GroupedType kTypes[] = {
      {32, 1, 4, 0, 1, 0, 8, false},                      // int4
      {32, 1, 4, 0, 1, 0, 12, false},                     // mxfp4
      {32, 1, 8, 0, 1, 0, 0, false},                      // q8_0
      {32, 1, 4, 0, 1, 0, 8, false},                      // q4_0
      {32, 1, 4, 0, 1, 2, 0, true},                       // q4_k
      {32, 2, 4, 2, 1, 1, 32, false},                     // q6_k
      {32, 1, 4, 0, 2, 0, 0, true},                       // q4_1
      {32, 1, 4, 1, 1, 0, 16, false},                     // q5_0
      {32, 1, 4, 1, 2, 0, 0, true},                       // q5_1
      {32, 1, 4, 1, 1, 2, 0, true},                       // q5_k
      {32, 2, 2, 1, 1, 1, 4, false},                      // q3_k
      {32, 2, 2, 0, 1, 2, 0, true},                       // q2_k
      {32, 1, 4, 0, 1, 0, 0, false, CodeTable::kIq4},     // iq4_nl
      {64, 2, 4, 0, 1, 1, 0, false, CodeTable::kIq4},     // iq4_xs
      {32, 2, 2, 1, 1, 1, 0, false, CodeTable::kIq2},     // iq2
      {64, 2, 4, 0, 1, 1, 0, false, CodeTable::kIq3Xxs},  // iq3_xxs
      {64, 2, 4, 0, 1, 1, 0, false, CodeTable::kIq3S},    // iq3_s
  };
  return kTypes[static_cast<size_t>(type) - static_cast<size_t>(WeightType::kInt4)];
}

/// Whether 256 inputs share further scales.
static constexpr bool in_super_blocks(WeightType type) { return grouped(type) && grouped_type(type).supers > 0; }

/// Whether sida only copies the type, from blocks that have it.
constexpr bool only_copied(WeightType type) { return type >= WeightType::kQ4_K; }

/// Whether the codes lie in planes that one kernel serves (panel_layout.h).
constexpr bool in_planes(WeightType type) { return type > WeightType::kQ6_K; }

/// Inputs of a block of a type that is only copied: no matrix of another k has it. 1 of the others.
static constexpr size_t block_inputs(WeightType type) {
  return in_super_blocks(type) ? 256 : only_copied(type) ? 32 : 1;
}

/// Names that matrices of one kind have types of their own.
inline constexpr const char* kMixedFormats = "mixed";

constexpr const char* weight_type_name(WeightType type) {
  constexpr const char* kNames[] = {"f32",  "bf16", "bf16c",  "int8",   "int4", "mxfp4",   "q8_0",
                                    "q4_0", "q4_k", "q6_k",   "q4_1",   "q5_0", "q5_1",    "q5_k",
                                    "q3_k", "q2_k", "iq4_nl", "iq4_xs", "iq2",  "iq3_xxs", "iq3_s"};
  return kNames[static_cast<size_t>(type)];
}

/// The weights that a format is for. Experts may have any type, dense weights any but int4 and bf16c.
enum class WeightRole : uint8_t { kExperts, kDense };

/// A callback that throws the caller's error. `field` is "dtype" or "group".
using FormatFault =
    std::function<void(const std::string& field, const std::string& expected, const std::string& found)>;

/// The format that a manifest or an option names; calls `fault` where no such format exists.
WeightFormat named_weight_format(WeightRole role, std::string_view dtype, std::optional<uint64_t> group,
                                 const FormatFault& fault);

}  // namespace sida
