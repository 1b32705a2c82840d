#pragma once

#include "spec/families/family.h"

namespace sida {

/// DeepSeek-V3 and R1: decoder-only, latent attention, a sigmoid router with a correction.
extern const Family kDeepseekV3;
extern const GgufForm kDeepseekV3Gguf;

ModelSpec read_deepseek_v3_config(const ConfigReader& config);

}  // namespace sida
