#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "spec/model_config.h"
#include "support/safetensors_builder.h"

namespace sida::testing {

inline constexpr const char* kFamilies[] = {"switch_transformers", "nllb-moe",   "olmoe",         "mixtral",
                                            "qwen2_moe",           "qwen3_moe",  "gpt_oss",       "deepseek_v2",
                                            "deepseek_v3",         "glm4_moe",   "glm4_moe_lite", "qwen3_next",
                                            "qwen3_5_moe_text",    "nomic_bert", "gemma4"};

/// config.json of a model of two layers a stack and three experts, small enough to write in each case. `extra` adds
/// fields.
inline std::string tiny_family_config(const std::string& family, const std::string& extra = "") {
  const bool grouped = family == "deepseek_v3" || family == "glm4_moe_lite";
  const bool latent = grouped || family == "deepseek_v2";
  std::string fields = R"({"model_type":")" + family + R"(","vocab_size":10)";
  if (family == "switch_transformers") {
    fields += R"(,"d_model":4,"d_kv":2,"d_ff":8,"num_heads":2,"num_layers":2,"num_decoder_layers":2,"num_experts":3,)"
              R"("num_sparse_encoder_layers":1,"num_sparse_decoder_layers":1,"relative_attention_num_buckets":8,)"
              R"("relative_attention_max_distance":16)";
  } else if (family == "nllb-moe") {
    fields += R"(,"d_model":8,"encoder_layers":2,"decoder_layers":2,"encoder_attention_heads":2,"num_experts":3,)"
              R"("decoder_attention_heads":2,"encoder_ffn_dim":6,"decoder_ffn_dim":6,"encoder_sparse_step":2,)"
              R"("decoder_sparse_step":2,"max_position_embeddings":64)";
  } else if (family == "nomic_bert") {
    fields += R"(,"n_embd":8,"n_head":2,"n_inner":6,"n_layer":2,"n_positions":64,"num_experts":3,"moe_top_k":2,)"
              R"("moe_every_n_layers":2,"layer_norm_epsilon":1e-5,"type_vocab_size":1,"activation_function":"gelu",)"
              R"("rotary_emb_fraction":1.0)";
  } else if (family == "olmoe") {
    // Two query heads share a key and value head.
    fields += R"(,"hidden_size":8,"intermediate_size":6,"num_hidden_layers":2,"num_attention_heads":4,"num_experts":3,)"
              R"("num_key_value_heads":2,"num_experts_per_tok":2,"max_position_embeddings":64,"eos_token_id":2,)"
              R"("pad_token_id":0)";
  } else {
    const std::string size = family == "gpt_oss" ? "32" : "8";
    fields += R"(,"hidden_size":)" + size +
              R"(,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"num_experts_per_tok":2,)"
              R"("max_position_embeddings":64,"eos_token_id":2)";
    fields += family == "mixtral" || family == "gpt_oss"
                  ? R"(,"num_local_experts":3,"intermediate_size":)" + std::string(family == "gpt_oss" ? "32" : "6")
                  : R"(,"moe_intermediate_size":6,"intermediate_size":12)";
    if (family == "qwen2_moe") fields += R"(,"num_experts":3,"shared_expert_intermediate_size":10)";
    if (family == "qwen3_moe") fields += R"(,"num_experts":3)";
    if (family == "glm4_moe" || latent) fields += R"(,"n_routed_experts":3,"first_k_dense_replace":1)";
    if (family == "gemma4") {
      fields += R"(,"num_experts":3,"enable_moe_block":true,"hidden_size_per_layer_input":0,"global_head_dim":12,)"
                R"("attention_k_eq_v":true)";
    }
    if (grouped) fields += R"(,"n_group":1,"topk_group":1)";
    if (family.starts_with("qwen3_next") || family.starts_with("qwen3_5")) {
      // Two value heads belong to each key head.
      fields += R"(,"num_experts":3,"shared_expert_intermediate_size":10,"linear_num_key_heads":2,)"
                R"("linear_num_value_heads":4,"linear_key_head_dim":3,"linear_value_head_dim":2,)"
                R"("layer_types":["full_attention","linear_attention"])";
    }
    if (latent) {
      fields += R"(,"q_lora_rank":3,"kv_lora_rank":5,"qk_nope_head_dim":4,"qk_rope_head_dim":2,"v_head_dim":6)";
    } else if (family != "qwen2_moe") {
      fields += R"(,"head_dim":8)";
    }
  }
  return fields + (extra.empty() ? "" : "," + extra) + "}";
}

inline std::string tiny_config(const std::string& extra = "") {
  return tiny_family_config("switch_transformers", extra);
}

inline BuiltTensor zeros(const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t d : shape) count *= d;
  return {name, "F32", shape, std::string(count * 4, '\0')};
}

/// All tensors that a config needs, zeros, under the best of their names; with `fused`, the last.
inline std::vector<BuiltTensor> tiny_tensors(const std::string& config = tiny_config(), bool fused = false) {
  const ModelConfig parsed = parse_model_config(config, "config.json");
  std::vector<BuiltTensor> tensors;
  for_each_slot(parsed.spec, [&](const TensorSlot& slot) {
    const auto candidates = parsed.family->source(parsed.spec, slot).candidates;
    const bool last = fused && slot.form == TensorForm::kExpert;
    const TensorSource::Candidate& taken = last ? candidates.back() : candidates.front();
    const bool there = std::any_of(tensors.begin(), tensors.end(),
                                   [&](const BuiltTensor& tensor) { return tensor.name == taken.name; });
    if (there) return;
    tensors.push_back(zeros(taken.name, taken.shape.empty() ? slot.shape : taken.shape));
    if (taken.scales.empty()) return;
    // Codes of MXFP4, whose scales are all 1.
    BuiltTensor& codes = tensors.back();
    codes.dtype = "U8";
    codes.data.resize(codes.data.size() / 4);
    const std::vector<uint64_t> scales(codes.shape.begin(), codes.shape.end() - 1);
    tensors.push_back({taken.scales, "U8", scales, std::string(codes.data.size() / 16, 127)});
  });
  return tensors;
}

}  // namespace sida::testing
