#include "spec/families/decoder_tensors.h"
#include "spec/families/qwen3_moe/qwen3_moe.h"

namespace sida {

constexpr Family kQwen3Moe{"qwen3_moe", read_qwen3_moe_config, decoder_source, owns_decoder_tensor, &kQwen3MoeGguf};

}  // namespace sida
