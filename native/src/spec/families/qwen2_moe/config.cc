#include "spec/families/config_limits.h"
#include "spec/families/decoder_config.h"
#include "spec/families/qwen2_moe/qwen2_moe.h"
#include "spec/families/qwen_layers.h"

namespace sida {

ModelSpec read_qwen2_moe_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{
      .vocab = 151936, .width = 2048, .layers = 24, .heads = 16, .kv_heads = 16, .context = 32768, .epsilon = 1e-6};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {60, 4, "moe_intermediate_size", 1408});
  moe.router.normalized = reader.boolean("norm_topk_prob", false);
  const size_t shared = read_count(reader, "shared_expert_intermediate_size", kMaxFfnWidth, 5632);
  moe.shared = SharedExpertSpec{{shared, Activation::kSwiglu}, SharedGate::kSigmoid};
  AttentionSpec attention = read_heads(reader, spec.width, defaults, HeadDim::kOwn);
  attention.biased = reader.boolean("qkv_bias", true);
  StackSpec stack = decoder_stack(reader, defaults, {attention, std::nullopt, moe});
  make_dense_layers(reader, 5632, stack);
  read_windows(reader, true, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
