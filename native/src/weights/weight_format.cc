#include "weights/weight_format.h"

#include <vector>

#include "core/error.h"

namespace sida {
namespace {

constexpr WeightType kLastType = WeightType::kIq3S;

WeightType next(WeightType type) { return static_cast<WeightType>(static_cast<int>(type) + 1); }

}  // namespace

WeightFormat named_weight_format(WeightRole role, std::string_view dtype, std::optional<uint64_t> group,
                                 const FormatFault& fault) {
  const auto bad = [&](const std::string& field, const std::string& expected, const std::string& found) {
    fault(field, expected, found);
    throw Error("internal", "a weight format of " + expected + " passed as " + found + ". This is a bug.");
  };
  std::vector<std::string> names;
  for (auto type = WeightType::kF32; type <= kLastType; type = next(type)) {
    const bool for_experts = type == WeightType::kInt4 || type == WeightType::kBf16c;
    if (for_experts && role == WeightRole::kDense) continue;
    names.emplace_back(weight_type_name(type));
    if (dtype != names.back()) continue;
    if (type != WeightType::kInt4) {
      if (group) bad("group", "none beside " + names.back(), std::to_string(*group));
      return {type, grouped(type) ? grouped_type(type).group : 0U};
    }
    if (!group) bad("group", "32, 64 or 128", "none");
    if (*group != 32 && *group != 64 && *group != 128) bad("group", "32, 64 or 128", std::to_string(*group));
    return {type, static_cast<uint32_t>(*group)};
  }
  std::string list = names.front();
  for (size_t i = 1; i < names.size(); ++i) list += (i + 1 < names.size() ? ", " : " or ") + names[i];
  bad("dtype", list, escape_text(dtype));
  return {};
}

}  // namespace sida
