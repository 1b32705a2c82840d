#include "model/families/decoder_tensors.h"
#include "model/families/qwen2_moe/qwen2_moe.h"

namespace sida {
namespace {

TensorSource qwen2_moe_source(const ModelSpec& spec, const TensorSlot& slot) {
  return decoder_source(spec, slot, {.blocks = {"mlp."}});
}

}  // namespace

constexpr Family kQwen2Moe{"qwen2_moe", read_qwen2_moe_config, qwen2_moe_source, owns_decoder_tensor};

}  // namespace sida
