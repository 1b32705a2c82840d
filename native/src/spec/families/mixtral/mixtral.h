#pragma once

#include "spec/families/family.h"

namespace sida {

/// Mistral AI's Mixtral: decoder-only, every layer sparse, grouped queries.
extern const Family kMixtral;
extern const GgufForm kMixtralGguf;

ModelSpec read_mixtral_config(const ConfigReader& config);

}  // namespace sida
