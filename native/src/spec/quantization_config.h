#pragma once

#include <cstdint>
#include <optional>

#include "spec/config_reader.h"

namespace sida {

/// The rows and columns of a weight that share a scale in an FP8 checkpoint.
struct Fp8Block {
  uint64_t rows = 128;
  uint64_t columns = 128;
};

/// Reads the `quantization_config` of a config.json: nothing where there is none or it is that of MXFP4, whose blocks
/// are always alike. Throws checkpoint_invalid naming the field that asks for something else.
std::optional<Fp8Block> read_quantization(const ConfigReader& config);

}  // namespace sida
