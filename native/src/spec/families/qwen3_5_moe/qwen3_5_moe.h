#pragma once

#include "spec/families/family.h"

namespace sida {

/// Alibaba's Qwen3.5 and Qwen3.6 with experts: the text part, which is Qwen3-Next with other projections. The vision
/// part is not read.
extern const Family kQwen35Moe;
/// The text part in a checkpoint of its own.
extern const Family kQwen35MoeText;
extern const GgufForm kQwen35MoeGguf;

ModelSpec read_qwen3_5_moe_config(const ConfigReader& config);
ModelSpec read_qwen3_5_moe_text_config(const ConfigReader& config);

}  // namespace sida
