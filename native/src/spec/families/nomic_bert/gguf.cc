#include <string>

#include "spec/families/gguf_config.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/nomic_bert/nomic_bert.h"

namespace sida {
namespace {

/// llama.cpp's number of the mean of all tokens.
constexpr uint64_t kMeanPooling = 1;

std::string nomic_bert_config(const GgufModel& model) {
  GgufConfig config(model, "nomic_bert");
  if (model.flag("attention.causal").value_or(false)) {
    throw model.fault("attention.causal", "false", "true", "only encoders are supported");
  }
  if (const auto pooling = model.count("pooling_type"); pooling && *pooling != kMeanPooling) {
    throw model.fault("pooling_type", "1, the mean of all tokens", std::to_string(*pooling),
                      "other embeddings are not supported");
  }
  config.set_whole_heads();
  if (config.head_dim() * model.need_count("attention.head_count") != model.need_count("embedding_length")) {
    throw model.fault("attention.key_length", "embedding_length / attention.head_count",
                      std::to_string(config.head_dim()));
  }
  config.set_rope();
  config.set_text("activation_function", "gelu");
  config.set_real("layer_norm_epsilon", model.real("attention.layer_norm_epsilon"));
  config.set("n_inner", model.need_count("feed_forward_length"));
  config.set("moe_every_n_layers", model.need_count("moe_every_n_layers"));
  config.set("type_vocab_size", 1);
  config.set_flag("qkv_proj_bias", model.has("blk.0.attn_qkv.bias") || model.has("blk.0.attn_q.bias"));
  config.set_flag("mlp_fc1_bias", model.has("blk.0.ffn_up.bias"));
  config.set_flag("mlp_fc2_bias", model.has("blk.0.ffn_down.bias"));
  config.set_flag("moe_bias", false);
  return config.text();
}

std::string gguf_layer(size_t layer) { return "blk." + std::to_string(layer) + "."; }

/// As norm_in_front_of().
std::string gguf_norm(size_t layer) {
  return layer == 0 ? "token_embd_norm." : gguf_layer(layer - 1) + "layer_output_norm.";
}

/// Files of other converters have three tensors.
TensorSource gguf_third_of(const ModelSpec& spec, const TensorSlot& slot, uint64_t part) {
  TensorSource source = third_of(gguf_layer(slot.layer) + "attn_qkv", slot, part);
  source.candidates.push_back(gguf_source(spec, slot).candidates.front());
  return source;
}

TensorSource nomic_bert_gguf_source(const ModelSpec& spec, const TensorSlot& slot) {
  const std::string layer = gguf_layer(slot.layer);
  switch (slot.role) {
    case TensorRole::kEmbeddingBias:
      return {{{"token_types.weight", {1, spec.width}}}};
    case TensorRole::kAttentionNorm:
      return {{{gguf_norm(slot.layer) + "weight"}}};
    case TensorRole::kAttentionNormBias:
      return {{{gguf_norm(slot.layer) + "bias"}}};
    case TensorRole::kFinalNorm:
      return {{{gguf_norm(spec.last().layers.size()) + "weight"}}};
    case TensorRole::kFinalNormBias:
      return {{{gguf_norm(spec.last().layers.size()) + "bias"}}};
    case TensorRole::kQuery:
    case TensorRole::kQueryBias:
      return gguf_third_of(spec, slot, 0);
    case TensorRole::kKey:
    case TensorRole::kKeyBias:
      return gguf_third_of(spec, slot, 1);
    case TensorRole::kValue:
    case TensorRole::kValueBias:
      return gguf_third_of(spec, slot, 2);
    case TensorRole::kFeedForwardNorm:
      return {{{layer + "attn_output_norm.weight"}}};
    case TensorRole::kFeedForwardNormBias:
      return {{{layer + "attn_output_norm.bias"}}};
    case TensorRole::kUpBias:
      return {{{layer + "ffn_up.bias"}}};
    case TensorRole::kDownBias:
      return {{{layer + "ffn_down.bias"}}};
    default:
      return gguf_source(spec, slot);
  }
}

}  // namespace

constexpr GgufForm kNomicBertGguf{"nomic-bert-moe", nullptr, nomic_bert_config, nomic_bert_gguf_source};

}  // namespace sida
