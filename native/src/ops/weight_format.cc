#include "ops/weight_format.h"

#include "core/error.h"

namespace sida {

WeightFormat named_weight_format(WeightRole role, std::string_view dtype, std::optional<uint64_t> group,
                                 const FormatFault& fault) {
  const auto bad = [&](const std::string& field, const std::string& expected, const std::string& found) {
    fault(field, expected, found);
    throw Error("internal", "a weight format of " + expected + " passed as " + found + ". This is a bug.");
  };
  if (dtype == "int4" && role == WeightRole::kExperts) {
    if (!group) bad("group", "32, 64 or 128", "none");
    if (*group != 32 && *group != 64 && *group != 128) {
      bad("group", "32, 64 or 128", std::to_string(*group));
    }
    return {WeightType::kInt4, static_cast<uint32_t>(*group)};
  }
  if (dtype == "mxfp4" && role == WeightRole::kExperts) {
    if (group) bad("group", "none beside mxfp4", std::to_string(*group));
    return kMxfp4Format;
  }
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kInt8}) {
    if (dtype != weight_type_name(type)) continue;
    if (group) bad("group", "none beside " + std::string(dtype), std::to_string(*group));
    return {type, 0};
  }
  bad("dtype", role == WeightRole::kExperts ? "f32, bf16, int8, int4 or mxfp4" : "f32, bf16 or int8",
      escape_text(dtype));
  return {};
}

}  // namespace sida
