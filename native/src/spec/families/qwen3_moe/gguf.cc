#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/qwen3_moe/qwen3_moe.h"

namespace sida {
namespace {

std::string qwen3_moe_config(const GgufModel& model) {
  GgufConfig config(model, "qwen3_moe");
  config.set_whole_heads();
  config.set_rope();
  config.set("moe_intermediate_size", model.expert_width());
  config.set("intermediate_size", model.need_count("feed_forward_length"));
  config.set("mlp_only_layers", dense_gguf_layers(model, config.layers()));
  config.set_flag("norm_topk_prob", model.flag("expert_weights_norm").value_or(true));
  config.set_flag("attention_bias", model.has("blk.0.attn_q.bias"));
  return config.text();
}

}  // namespace

constexpr GgufForm kQwen3MoeGguf{"qwen3moe", nullptr, qwen3_moe_config, gguf_source};

}  // namespace sida
