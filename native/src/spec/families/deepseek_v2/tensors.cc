#include "spec/families/deepseek_v2/deepseek_v2.h"
#include "spec/families/latent_config.h"

namespace sida {

constexpr Family kDeepseekV2{"deepseek_v2", read_deepseek_v2_config, latent_source, owns_decoder_tensor,
                             &kDeepseekV2Gguf};

}  // namespace sida
