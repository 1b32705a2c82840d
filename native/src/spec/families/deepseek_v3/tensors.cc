#include "spec/families/deepseek_v3/deepseek_v3.h"
#include "spec/families/latent_config.h"

namespace sida {

constexpr Family kDeepseekV3{"deepseek_v3", read_deepseek_v3_config, latent_source, owns_decoder_tensor,
                             &kDeepseekV3Gguf};

}  // namespace sida
