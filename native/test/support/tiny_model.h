#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "support/safetensors_builder.h"

namespace sida::testing {

/// config.json of a model of two layers a stack, one of them sparse, small enough to write in each case.
inline std::string tiny_config(const std::string& extra = "") {
  return R"({"model_type":"switch_transformers","vocab_size":10,"d_model":4,"d_kv":2,"d_ff":8,"num_heads":2,)"
         R"("num_layers":2,"num_decoder_layers":2,"num_sparse_encoder_layers":1,"num_sparse_decoder_layers":1,)"
         R"("num_experts":3,"relative_attention_num_buckets":8,"relative_attention_max_distance":16)" +
         (extra.empty() ? "" : "," + extra) + "}";
}

/// The same for a decoder-only model of two layers, both sparse; two query heads share a key and value head.
inline std::string tiny_olmoe_config(const std::string& extra = "") {
  return R"({"model_type":"olmoe","vocab_size":10,"hidden_size":8,"intermediate_size":6,"num_hidden_layers":2,)"
         R"("num_attention_heads":4,"num_key_value_heads":2,"num_experts":3,"num_experts_per_tok":2,)"
         R"("max_position_embeddings":64,"eos_token_id":2,"pad_token_id":0)" +
         (extra.empty() ? "" : "," + extra) + "}";
}

/// The same for an encoder-decoder model with layer norms and biases: two layers a stack, the second ones sparse.
inline std::string tiny_nllb_config(const std::string& extra = "") {
  return R"({"model_type":"nllb-moe","vocab_size":10,"d_model":8,"encoder_layers":2,"decoder_layers":2,)"
         R"("encoder_attention_heads":2,"decoder_attention_heads":2,"encoder_ffn_dim":6,"decoder_ffn_dim":6,)"
         R"("num_experts":3,"encoder_sparse_step":2,"decoder_sparse_step":2,"max_position_embeddings":64)" +
         (extra.empty() ? "" : "," + extra) + "}";
}

inline BuiltTensor zeros(const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t d : shape) count *= d;
  return {name, "F32", shape, std::string(count * 4, '\0')};
}

/// A config of any decoder-only family but OLMoE for such a model: two layers and three experts, of which two are
/// chosen. `extra` adds fields.
inline std::string tiny_family_config(const std::string& family, const std::string& extra = "") {
  const bool grouped = family == "deepseek_v3", latent = grouped || family == "deepseek_v2";
  const std::string size = family == "gpt_oss" ? "32" : "8";
  std::string fields = R"({"model_type":")" + family + R"(","vocab_size":10,"hidden_size":)" + size +
                       R"(,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,)"
                       R"("num_experts_per_tok":2,"max_position_embeddings":64,"eos_token_id":2)";
  fields += family == "mixtral" || family == "gpt_oss" ? R"(,"num_local_experts":3,"intermediate_size":)" +
                                                             std::string(family == "gpt_oss" ? "32" : "6")
                                                       : R"(,"moe_intermediate_size":6,"intermediate_size":12)";
  if (family == "qwen2_moe") fields += R"(,"num_experts":3,"shared_expert_intermediate_size":10)";
  if (family == "qwen3_moe") fields += R"(,"num_experts":3)";
  if (family == "glm4_moe" || latent) fields += R"(,"n_routed_experts":3,"first_k_dense_replace":1)";
  if (grouped) fields += R"(,"n_group":1,"topk_group":1)";
  if (latent) {
    fields += R"(,"q_lora_rank":3,"kv_lora_rank":5,"qk_nope_head_dim":4,"qk_rope_head_dim":2,"v_head_dim":6)";
  } else if (family != "qwen2_moe") {
    fields += R"(,"head_dim":8)";
  }
  return fields + (extra.empty() ? "" : "," + extra) + "}";
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
