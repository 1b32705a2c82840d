#pragma once

#include "spec/families/family.h"

namespace sida {

/// Alibaba's Qwen1.5-MoE and Qwen2-MoE: decoder-only, biases of queries, keys and values, a gated shared expert.
extern const Family kQwen2Moe;
extern const GgufForm kQwen2MoeGguf;

ModelSpec read_qwen2_moe_config(const ConfigReader& config);

}  // namespace sida
