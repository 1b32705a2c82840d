#pragma once

#include "model/config_reader.h"
#include "model/spec.h"

namespace sida {

/// Rotary positions over `width` columns as a config asks for them: by `rope_theta` and `rope_scaling`, or by one
/// `rope_parameters`. Throws checkpoint_invalid naming a type that is not implemented.
Rope read_rope(const ConfigReader& reader, size_t width);

}  // namespace sida
