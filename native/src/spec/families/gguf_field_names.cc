#include "spec/families/gguf_field_names.h"

#include <string>
#include <string_view>

namespace sida {
namespace {

struct FieldKey {
  const char* field;
  const char* key;  ///< behind the architecture's name
};

constexpr FieldKey kFieldKeys[] = {
    {"hidden_size", "embedding_length"},
    {"num_hidden_layers", "block_count"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"max_position_embeddings", "context_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"sliding_window", "attention.sliding_window"},
    {"global_head_dim", "attention.key_length"},
    {"num_global_key_value_heads", "attention.head_count_kv"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"num_kv_shared_layers", "attention.shared_kv_layers"},
    {"clip_qkv", "attention.clamp_kqv"},
    {"q_lora_rank", "attention.q_lora_rank"},
    {"kv_lora_rank", "attention.kv_lora_rank"},
    {"qk_rope_head_dim", "rope.dimension_count"},
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"n_inner", "feed_forward_length"},
    {"moe_every_n_layers", "moe_every_n_layers"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"rope_parameters.rope_theta", "rope.freq_base"},
    {"rope_parameters.factor", "rope.scaling.factor"},
    {"rope_parameters.original_max_position_embeddings", "rope.scaling.original_context_length"},
    {"rope_parameters.beta_fast", "rope.scaling.yarn_beta_fast"},
    {"rope_parameters.beta_slow", "rope.scaling.yarn_beta_slow"},
    {"rope_parameters.attention_factor", "rope.scaling.yarn_attn_factor"},
};

std::string name_of(std::string_view key) { return "metadata \"" + escape_text(key) + "\""; }

}  // namespace

FieldNames gguf_field_names(const GgufModel& model) {
  FieldNames names;
  for (const auto& [field, key] : kFieldKeys) names.emplace(field, name_of(model.architecture() + "." + key));
  names.emplace("pad_token_id", name_of("tokenizer.ggml.padding_token_id"));
  // Several keys name such tokens.
  names.emplace("eos_token_id", "an end token of the metadata");
  return names;
}

}  // namespace sida
