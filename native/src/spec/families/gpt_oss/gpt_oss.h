#pragma once

#include "spec/families/family.h"

namespace sida {

/// OpenAI's gpt-oss: decoder-only, attention with sinks and windows, experts in MXFP4 with biases.
extern const Family kGptOss;
extern const GgufForm kGptOssGguf;

ModelSpec read_gpt_oss_config(const ConfigReader& config);

}  // namespace sida
