#pragma once

#include "spec/families/family.h"

namespace sida {

/// Ai2's OLMoE: decoder-only, every layer sparse, rotary positions.
extern const Family kOlmoe;
extern const GgufForm kOlmoeGguf;

ModelSpec read_olmoe_config(const ConfigReader& config);

}  // namespace sida
