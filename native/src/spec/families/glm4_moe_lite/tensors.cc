#include "spec/families/glm4_moe_lite/glm4_moe_lite.h"
#include "spec/families/latent_config.h"

namespace sida {

constexpr Family kGlm4MoeLite{"glm4_moe_lite", read_glm4_moe_lite_config, latent_source, owns_decoder_tensor, nullptr};

}  // namespace sida
