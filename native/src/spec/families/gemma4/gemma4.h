#pragma once

#include "spec/families/family.h"

namespace sida {

/// Google's Gemma 4 with experts (26B-A4B), its text part: decoder-only, layers with a window and others with wider
/// heads, a dense network beside the experts.
extern const Family kGemma4;
/// The text part in a checkpoint of its own.
extern const Family kGemma4Text;
extern const GgufForm kGemma4Gguf;

ModelSpec read_gemma4_config(const ConfigReader& config);

}  // namespace sida
