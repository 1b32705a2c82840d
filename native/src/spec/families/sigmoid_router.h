#pragma once

#include "spec/config_reader.h"
#include "spec/spec.h"

namespace sida {

/// transformers' defaults of a family.
struct SigmoidRouterDefaults {
  int groups, kept;
  double scale;
};

/// DeepSeek-V3's router (arXiv 2412.19437, section 2.1.2), which others took over: sigmoid scores with a correction of
/// the choice, groups by the sum of their two best, normalized factors and a scale.
void read_sigmoid_router(const ConfigReader& reader, const SigmoidRouterDefaults& defaults, MoeSpec& moe);

/// `n_group` and `topk_group`, whose defaults are `count` and `kept`; a group's score is the sum of its `best` best
/// experts' scores.
ExpertGroups read_groups(const ConfigReader& reader, const MoeSpec& moe, size_t best, int count, int kept);

/// Shared experts: one network as wide as `n_shared_experts` experts.
void read_shared_experts(const ConfigReader& reader, int count, MoeSpec& moe);

}  // namespace sida
