#pragma once

#include "spec/families/family.h"

namespace sida {

/// Alibaba's Qwen3-Next: decoder-only, gated delta rules in three of four layers, gated attention in the others.
extern const Family kQwen3Next;
extern const GgufForm kQwen3NextGguf;

ModelSpec read_qwen3_next_config(const ConfigReader& config);

}  // namespace sida
