#include "spec/families/decoder_tensors.h"
#include "spec/families/mixtral/mixtral.h"

namespace sida {
namespace {

TensorSource mixtral_source(const ModelSpec& spec, const TensorSlot& slot) {
  return decoder_source(spec, slot, {.blocks = {"block_sparse_moe.", "mlp."}, .gate = "w1", .up = "w3", .down = "w2"});
}

}  // namespace

constexpr Family kMixtral{"mixtral", read_mixtral_config, mixtral_source, owns_decoder_tensor, &kMixtralGguf};

}  // namespace sida
