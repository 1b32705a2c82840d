#include "model/families/decoder_tensors.h"
#include "model/families/olmoe/olmoe.h"

namespace sida {
namespace {

TensorSource olmoe_source(const ModelSpec& spec, const TensorSlot& slot) {
  return decoder_source(spec, slot, {.blocks = {"mlp."}});
}

}  // namespace

constexpr Family kOlmoe{"olmoe", read_olmoe_config, olmoe_source, owns_decoder_tensor};

}  // namespace sida
