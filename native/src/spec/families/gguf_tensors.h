#pragma once

#include <string>
#include <string_view>

#include "spec/families/family.h"

namespace sida {

/// Where llama.cpp's converter puts the tensors of decoder-only families.
TensorSource gguf_source(const ModelSpec& spec, const TensorSlot& slot);

/// The same of families with latent attention.
TensorSource gguf_latent_source(const ModelSpec& spec, const TensorSlot& slot);

/// Whether a name is that of a layer's weight that is read.
bool owns_gguf_tensor(const ModelSpec& spec, std::string_view name);

}  // namespace sida
