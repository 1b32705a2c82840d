#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"

namespace sida {

/// The type of a tensor with this number in a GGUF file; nothing where it is not read.
std::optional<Dtype> ggml_dtype(uint32_t type);

/// The name of such a number, for errors: "Q5_K", "type 99".
std::string ggml_type_name(uint32_t type);

/// The names of all types that are read.
std::string readable_ggml_types();

}  // namespace sida
