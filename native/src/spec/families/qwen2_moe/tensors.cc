#include "spec/families/decoder_tensors.h"
#include "spec/families/qwen2_moe/qwen2_moe.h"

namespace sida {

constexpr Family kQwen2Moe{"qwen2_moe", read_qwen2_moe_config, decoder_source, owns_decoder_tensor, &kQwen2MoeGguf};

}  // namespace sida
