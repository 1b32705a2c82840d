#pragma once

#include "spec/families/family.h"

namespace sida {

/// Google's Switch Transformers: a T5 whose sparse layers choose one expert a token.
extern const Family kSwitchTransformers;

ModelSpec read_switch_config(const ConfigReader& config);

}  // namespace sida
