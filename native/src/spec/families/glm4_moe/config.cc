#include "spec/families/decoder_config.h"
#include "spec/families/glm4_moe/glm4_moe.h"
#include "spec/families/sigmoid_router.h"

namespace sida {

ModelSpec read_glm4_moe_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 151552,
                                 .width = 4096,
                                 .layers = 46,
                                 .heads = 96,
                                 .kv_heads = 8,
                                 .context = 131072,
                                 .epsilon = 1e-5,
                                 .partial_rotary = 0.5,
                                 .extra_layers = 1};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {128, 8, "moe_intermediate_size", 1408});
  read_sigmoid_router(reader, {1, 1, 1}, moe);
  read_shared_experts(reader, 1, moe);
  AttentionSpec attention = read_heads(reader, spec.width, defaults, HeadDim::kOwn);
  attention.biased = reader.boolean("attention_bias", false);
  if (reader.boolean("use_qk_norm", false)) attention.qk_norm = QkNorm::kHead;
  StackSpec stack = decoder_stack(reader, defaults, {attention, std::nullopt, moe});
  make_first_layers_dense(reader, 1, 10944, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
