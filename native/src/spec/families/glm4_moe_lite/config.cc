#include "spec/families/glm4_moe_lite/glm4_moe_lite.h"
#include "spec/families/latent_config.h"
#include "spec/families/sigmoid_router.h"

namespace sida {

ModelSpec read_glm4_moe_lite_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 154880,
                                 .width = 2048,
                                 .layers = 47,
                                 .heads = 20,
                                 .kv_heads = 20,
                                 .context = 202752,
                                 .epsilon = 1e-5,
                                 .end = {1},
                                 .extra_layers = 1};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {64, 4, "moe_intermediate_size", 1536});
  read_sigmoid_router(reader, {1, 1, 1.8}, moe);
  read_shared_experts(reader, 1, moe);
  const AttentionSpec attention = read_latent_attention(reader, defaults, {768, 512, 64, 192, 256});
  // All of a head's rotary columns are rotated.
  reader.real("partial_rotary_factor", 1, 1, 1);
  const bool adjacent = reader.boolean("rope_interleave", true);
  StackSpec stack = latent_stack(reader, defaults, adjacent, {attention, std::nullopt, moe});
  make_first_layers_dense(reader, 1, 10240, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
