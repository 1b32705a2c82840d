#pragma once

#include "spec/families/family.h"

namespace sida {

/// Meta's NLLB-MoE: an encoder-decoder for translation with layer norms, biases and sinusoidal positions, whose sparse
/// layers choose two experts a token.
extern const Family kNllbMoe;

ModelSpec read_nllb_moe_config(const ConfigReader& config);

}  // namespace sida
