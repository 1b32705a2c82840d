#include "model/families/decoder_tensors.h"
#include "model/families/qwen3_moe/qwen3_moe.h"

namespace sida {
namespace {

TensorSource qwen3_moe_source(const ModelSpec& spec, const TensorSlot& slot) {
  return decoder_source(spec, slot, {.blocks = {"mlp."}});
}

}  // namespace

constexpr Family kQwen3Moe{"qwen3_moe", read_qwen3_moe_config, qwen3_moe_source, owns_decoder_tensor};

}  // namespace sida
