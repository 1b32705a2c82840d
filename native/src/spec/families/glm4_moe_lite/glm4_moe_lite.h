#pragma once

#include "spec/families/family.h"

namespace sida {

/// GLM-4.7-Flash: decoder-only, the latent attention and the router of DeepSeek-V3. Its GGUF files are read as
/// DeepSeek-V3's.
extern const Family kGlm4MoeLite;

ModelSpec read_glm4_moe_lite_config(const ConfigReader& config);

}  // namespace sida
