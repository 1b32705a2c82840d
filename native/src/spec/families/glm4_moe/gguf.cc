#include <string>

#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/glm4_moe/glm4_moe.h"
#include "spec/families/latent_gguf.h"

namespace sida {
namespace {

std::string glm4_moe_config(const GgufModel& model) {
  if (!has_sigmoid_router(model) && model.count("expert_gating_func")) {
    throw model.fault("expert_gating_func", "2, sigmoids", "1, a softmax", "other routers are not of this family");
  }
  GgufConfig config(model, "glm4_moe");
  config.set_heads();
  config.set_rope();
  config.set_rotated_share();
  config.set("intermediate_size", model.need_count("feed_forward_length"));
  set_router_config(model, config);
  config.set_flag("norm_topk_prob", model.flag("expert_weights_norm").value_or(true));
  config.set_flag("attention_bias", model.has("blk.0.attn_q.bias"));
  config.set_flag("use_qk_norm", model.has("blk.0.attn_q_norm.weight"));
  return config.text();
}

}  // namespace

constexpr GgufForm kGlm4MoeGguf{"glm4moe", nullptr, glm4_moe_config, gguf_source};

}  // namespace sida
