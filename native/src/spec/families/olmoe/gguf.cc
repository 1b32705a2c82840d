#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/olmoe/olmoe.h"

namespace sida {
namespace {

std::string olmoe_config(const GgufModel& model) {
  GgufConfig config(model, "olmoe");
  config.set_whole_heads();
  config.set_rope();
  config.set("intermediate_size", model.expert_width());
  config.set_real("clip_qkv", model.real("attention.clamp_kqv"));
  config.set_flag("norm_topk_prob", model.flag("expert_weights_norm").value_or(false));
  config.set_flag("attention_bias", model.has("blk.0.attn_q.bias"));
  return config.text();
}

}  // namespace

constexpr GgufForm kOlmoeGguf{"olmoe", nullptr, olmoe_config, gguf_source};

}  // namespace sida
