#pragma once

#include "spec/families/family.h"

namespace sida {

/// Zhipu's GLM-4.5 and 4.6: decoder-only, DeepSeek-V3's router over heads of which a part is rotated.
extern const Family kGlm4Moe;
extern const GgufForm kGlm4MoeGguf;

ModelSpec read_glm4_moe_config(const ConfigReader& config);

}  // namespace sida
