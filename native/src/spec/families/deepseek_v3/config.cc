#include "spec/families/deepseek_v3/deepseek_v3.h"
#include "spec/families/latent_config.h"
#include "spec/families/sigmoid_router.h"

namespace sida {

ModelSpec read_deepseek_v3_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 129280,
                                 .width = 7168,
                                 .layers = 61,
                                 .heads = 128,
                                 .kv_heads = 128,
                                 .context = 4096,
                                 .epsilon = 1e-6,
                                 .end = {1},
                                 .extra_layers = 1};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {256, 8, "moe_intermediate_size", 2048});
  read_sigmoid_router(reader, {8, 4, 2.5}, moe);
  read_shared_experts(reader, 1, moe);
  const AttentionSpec attention = read_latent_attention(reader, defaults, {1536, 512, 64, 128, 128});
  const bool adjacent = reader.boolean("rope_interleave", true);
  StackSpec stack = latent_stack(reader, defaults, adjacent, {attention, std::nullopt, moe});
  make_first_layers_dense(reader, 3, 18432, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
