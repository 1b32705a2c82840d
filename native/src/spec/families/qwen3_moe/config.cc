#include "spec/families/decoder_config.h"
#include "spec/families/qwen3_moe/qwen3_moe.h"
#include "spec/families/qwen_layers.h"

namespace sida {

ModelSpec read_qwen3_moe_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{
      .vocab = 151936, .width = 2048, .layers = 24, .heads = 32, .kv_heads = 4, .context = 32768, .epsilon = 1e-6};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {128, 8, "moe_intermediate_size", 768});
  moe.router.normalized = reader.boolean("norm_topk_prob", false);
  AttentionSpec attention = read_heads(reader, spec.width, defaults, HeadDim::kOwn);
  attention.qk_norm = QkNorm::kHead;
  attention.biased = attention.output_biased = reader.boolean("attention_bias", false);
  StackSpec stack = decoder_stack(reader, defaults, {attention, std::nullopt, moe});
  make_dense_layers(reader, 6144, stack);
  read_windows(reader, false, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
