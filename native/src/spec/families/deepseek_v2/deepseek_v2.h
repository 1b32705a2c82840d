#pragma once

#include "spec/families/family.h"

namespace sida {

/// DeepSeek-V2 and V2-Lite: decoder-only, latent attention, a softmax router that may choose among groups.
extern const Family kDeepseekV2;
extern const GgufForm kDeepseekV2Gguf;

ModelSpec read_deepseek_v2_config(const ConfigReader& config);

}  // namespace sida
