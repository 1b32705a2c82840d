#include "spec/families/decoder_config.h"
#include "spec/families/olmoe/olmoe.h"

namespace sida {
namespace {

constexpr double kMaxClip = 1e9;

AttentionSpec read_attention(const ConfigReader& reader, size_t width, const DecoderDefaults& defaults) {
  AttentionSpec attention = read_heads(reader, width, defaults, HeadDim::kDerived);
  attention.qk_norm = QkNorm::kRow;
  attention.biased = attention.output_biased = reader.boolean("attention_bias", false);
  if (reader.field("clip_qkv")) attention.clip = static_cast<float>(reader.real("clip_qkv", 0, kMaxClip, 0));
  return attention;
}

}  // namespace

ModelSpec read_olmoe_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 50304,
                                 .width = 2048,
                                 .layers = 16,
                                 .heads = 16,
                                 .kv_heads = 0,
                                 .context = 4096,
                                 .epsilon = 1e-5,
                                 .end = {50279},
                                 .pad = 1};
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {64, 8, "intermediate_size", 2048});
  moe.router.normalized = reader.boolean("norm_topk_prob", false);
  const LayerSpec layer{read_attention(reader, spec.width, defaults), std::nullopt, moe};
  spec.stacks.push_back(decoder_stack(reader, defaults, layer));
  return spec;
}

}  // namespace sida
