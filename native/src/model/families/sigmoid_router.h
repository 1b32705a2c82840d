#pragma once

#include "model/config_reader.h"
#include "model/spec.h"

namespace sida {

/// DeepSeek-V3's router (arXiv 2412.19437, section 2.1.2), which others took over: sigmoid scores with a correction of
/// the choice, groups by the sum of their two best, normalized factors and a scale.
void read_sigmoid_router(const ConfigReader& reader, MoeSpec& moe);

/// `n_group` and `topk_group`; a group's score is the sum of its `best` best experts' scores. Nothing is grouped where
/// the fields are missing.
ExpertGroups read_groups(const ConfigReader& reader, const MoeSpec& moe, size_t best);

/// Shared experts: one network as wide as `n_shared_experts` experts.
void read_shared_experts(const ConfigReader& reader, int count, MoeSpec& moe);

}  // namespace sida
