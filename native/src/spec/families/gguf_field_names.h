#pragma once

#include "spec/config_reader.h"
#include "spec/families/gguf_model.h"

namespace sida {

/// The keys of a GGUF file that fields of the config made of it come from, in the words of GgufModel's errors. Fields
/// that no single key gives are left out.
FieldNames gguf_field_names(const GgufModel& model);

}  // namespace sida
