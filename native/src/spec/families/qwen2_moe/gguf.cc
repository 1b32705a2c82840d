#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/qwen2_moe/qwen2_moe.h"

namespace sida {
namespace {

/// Files of the first converters leave the width of the shared expert to its tensors.
uint64_t shared_width(const GgufModel& model, uint64_t layers) {
  if (const auto width = model.count("expert_shared_feed_forward_length")) return *width;
  for (uint64_t layer = 0; layer < layers; ++layer) {
    const auto* shape = model.shape("blk." + std::to_string(layer) + ".ffn_gate_shexp.weight");
    if (shape != nullptr && shape->size() == 2) return shape->front();
  }
  throw model.fault("expert_shared_feed_forward_length", "a whole number", "none");
}

std::string qwen2_moe_config(const GgufModel& model) {
  GgufConfig config(model, "qwen2_moe");
  config.set_whole_heads();
  config.set_rope();
  config.set("moe_intermediate_size", model.expert_width());
  config.set("shared_expert_intermediate_size", shared_width(model, config.layers()));
  config.set("intermediate_size", model.need_count("feed_forward_length"));
  config.set("mlp_only_layers", dense_gguf_layers(model, config.layers()));
  config.set_flag("norm_topk_prob", model.flag("expert_weights_norm").value_or(false));
  config.set_flag("qkv_bias", model.has("blk.0.attn_q.bias"));
  return config.text();
}

}  // namespace

constexpr GgufForm kQwen2MoeGguf{"qwen2moe", nullptr, qwen2_moe_config, gguf_source};

}  // namespace sida
