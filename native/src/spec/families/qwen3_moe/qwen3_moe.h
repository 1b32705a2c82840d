#pragma once

#include "spec/families/family.h"

namespace sida {

/// Alibaba's Qwen3-MoE: decoder-only, queries and keys normed by head.
extern const Family kQwen3Moe;
extern const GgufForm kQwen3MoeGguf;

ModelSpec read_qwen3_moe_config(const ConfigReader& config);

}  // namespace sida
