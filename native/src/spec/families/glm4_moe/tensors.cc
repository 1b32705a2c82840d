#include "spec/families/decoder_tensors.h"
#include "spec/families/glm4_moe/glm4_moe.h"

namespace sida {
namespace {

TensorSource glm4_moe_source(const ModelSpec& spec, const TensorSlot& slot) {
  return decoder_source(spec, slot, {.shared = "shared_experts."});
}

}  // namespace

constexpr Family kGlm4Moe{"glm4_moe", read_glm4_moe_config, glm4_moe_source, owns_decoder_tensor, &kGlm4MoeGguf};

}  // namespace sida
