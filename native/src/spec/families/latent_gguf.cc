#include "spec/families/latent_gguf.h"

#include <cstdlib>
#include <string>

namespace sida {

void set_latent_config(const GgufModel& model, GgufConfig& config) {
  const auto rank = model.count("attention.q_lora_rank");
  if (rank && *rank > 0) {
    config.set("q_lora_rank", *rank);
  } else {
    config.set_real("q_lora_rank", "null");
  }
  config.set("kv_lora_rank", model.need_count("attention.kv_lora_rank"));
  const uint64_t rotary = model.need_count("rope.dimension_count");
  config.set("qk_rope_head_dim", rotary);
  // Newer files have the widths of the latent row under the names of old ones.
  const bool newer = model.count("attention.key_length_mla").has_value();
  const uint64_t key = model.need_count(newer ? "attention.key_length_mla" : "attention.key_length");
  if (key <= rotary) {
    throw model.fault(newer ? "attention.key_length_mla" : "attention.key_length",
                      "more than the " + std::to_string(rotary) + " columns that are rotated", std::to_string(key));
  }
  config.set("qk_nope_head_dim", key - rotary);
  config.set("v_head_dim", model.need_count(newer ? "attention.value_length_mla" : "attention.value_length"));
  config.set_rope();
  config.set("intermediate_size", model.need_count("feed_forward_length"));
  config.set_flag("attention_bias", model.has("blk.0.attn_kv_a_mqa.bias"));
}

bool has_sigmoid_router(const GgufModel& model) {
  const uint64_t scores = model.count("expert_gating_func").value_or(0);
  // Files of GLM-4.7-Flash may lack the key. Routers of softmaxes have no correction.
  const std::string layer = "blk." + std::to_string(model.count("leading_dense_block_count").value_or(0));
  if (scores == 0) return model.has(layer + ".exp_probs_b.bias") || model.has(layer + ".exp_probs_b");
  if (scores <= 2) return scores == 2;
  throw model.fault("expert_gating_func", "1, a softmax, or 2, sigmoids", std::to_string(scores));
}

void set_router_config(const GgufModel& model, GgufConfig& config) {
  config.set("moe_intermediate_size", model.expert_width());
  config.set("n_shared_experts", model.count("expert_shared_count").value_or(0));
  config.set("first_k_dense_replace", model.count("leading_dense_block_count").value_or(0));
  // A scale of 0 stands for none.
  const std::string scale = model.real("expert_weights_scale").value_or("1");
  config.set_real("routed_scaling_factor", std::strtod(scale.c_str(), nullptr) == 0 ? "1" : scale);
  // Files without groups choose among all experts.
  config.set("n_group", model.count("expert_group_count").value_or(1));
  config.set("topk_group", model.count("expert_group_used_count").value_or(1));
}

}  // namespace sida
