#include "spec/families/qwen3_5_moe/qwen3_5_moe.h"
#include "spec/families/qwen_delta.h"

namespace sida {

ModelSpec read_qwen3_5_moe_text_config(const ConfigReader& reader) {
  const DecoderDefaults decoder{.vocab = 248320,
                                .width = 2048,
                                .layers = 40,
                                .heads = 16,
                                .kv_heads = 2,
                                .context = 32768,
                                .epsilon = 1e-6,
                                .partial_rotary = 0.25,
                                .head_dim = 256};
  return read_qwen_delta(reader, {decoder, 256, 8, true});
}

ModelSpec read_qwen3_5_moe_config(const ConfigReader& reader) {
  const auto text = reader.object("text_config");
  if (!text) throw reader.fault("text_config", "the config of the text part", "none", "");
  ModelSpec spec = read_qwen3_5_moe_text_config(*text);
  // That of the whole model says whether its head is tied.
  spec.head.tied = reader.boolean("tie_word_embeddings", spec.head.tied);
  return spec;
}

}  // namespace sida
