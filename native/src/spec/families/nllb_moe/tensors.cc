#include <string>

#include "spec/families/nllb_moe/nllb_moe.h"

namespace sida {
namespace {

/// A writer that stores the shared tensor once may keep any of its names.
const TensorSource kNllbEmbedding{{{"model.shared.weight"},
                                   {"model.encoder.embed_tokens.weight"},
                                   {"model.decoder.embed_tokens.weight"},
                                   {"lm_head.weight"}}};

/// The name inside a layer.
std::string name_in_layer(const TensorSlot& slot) {
  const std::string expert = "ffn.experts.expert_" + std::to_string(slot.expert) + ".";
  switch (slot.role) {
    case TensorRole::kAttentionNorm:
      return "self_attn_layer_norm.weight";
    case TensorRole::kAttentionNormBias:
      return "self_attn_layer_norm.bias";
    case TensorRole::kQuery:
      return "self_attn.q_proj.weight";
    case TensorRole::kQueryBias:
      return "self_attn.q_proj.bias";
    case TensorRole::kKey:
      return "self_attn.k_proj.weight";
    case TensorRole::kKeyBias:
      return "self_attn.k_proj.bias";
    case TensorRole::kValue:
      return "self_attn.v_proj.weight";
    case TensorRole::kValueBias:
      return "self_attn.v_proj.bias";
    case TensorRole::kAttentionOutput:
      return "self_attn.out_proj.weight";
    case TensorRole::kAttentionOutputBias:
      return "self_attn.out_proj.bias";
    case TensorRole::kCrossNorm:
      return "cross_attention_layer_norm.weight";
    case TensorRole::kCrossNormBias:
      return "cross_attention_layer_norm.bias";
    case TensorRole::kCrossQuery:
      return "cross_attention.q_proj.weight";
    case TensorRole::kCrossQueryBias:
      return "cross_attention.q_proj.bias";
    case TensorRole::kCrossKey:
      return "cross_attention.k_proj.weight";
    case TensorRole::kCrossKeyBias:
      return "cross_attention.k_proj.bias";
    case TensorRole::kCrossValue:
      return "cross_attention.v_proj.weight";
    case TensorRole::kCrossValueBias:
      return "cross_attention.v_proj.bias";
    case TensorRole::kCrossOutput:
      return "cross_attention.out_proj.weight";
    case TensorRole::kCrossOutputBias:
      return "cross_attention.out_proj.bias";
    case TensorRole::kFeedForwardNorm:
      return "ff_layer_norm.weight";
    case TensorRole::kFeedForwardNormBias:
      return "ff_layer_norm.bias";
    case TensorRole::kRouter:
      return "ffn.router.classifier.weight";
    case TensorRole::kRouterBias:
      return "ffn.router.classifier.bias";
    case TensorRole::kUp:
      return "ffn.fc1.weight";
    case TensorRole::kUpBias:
      return "ffn.fc1.bias";
    case TensorRole::kDown:
      return "ffn.fc2.weight";
    case TensorRole::kDownBias:
      return "ffn.fc2.bias";
    case TensorRole::kExpertUp:
      return expert + "fc1.weight";
    case TensorRole::kExpertUpBias:
      return expert + "fc1.bias";
    case TensorRole::kExpertDown:
      return expert + "fc2.weight";
    default:
      return expert + "fc2.bias";
  }
}

TensorSource nllb_moe_source(const ModelSpec& spec, const TensorSlot& slot) {
  if (slot.role == TensorRole::kEmbedding) return kNllbEmbedding;
  const std::string stack = "model." + spec.stacks[slot.stack].name + ".";
  if (slot.role == TensorRole::kFinalNorm) return {{{stack + "layer_norm.weight"}}};
  if (slot.role == TensorRole::kFinalNormBias) return {{{stack + "layer_norm.bias"}}};
  return {{{stack + "layers." + std::to_string(slot.layer) + "." + name_in_layer(slot)}}};
}

/// Old code also wrote the sines of positions, which follow from the config.
bool owns_nllb_moe_tensor(const ModelSpec&, std::string_view name) {
  return name.starts_with("model.encoder.layers.") || name.starts_with("model.decoder.layers.");
}

}  // namespace

constexpr Family kNllbMoe{"nllb-moe", read_nllb_moe_config, nllb_moe_source, owns_nllb_moe_tensor};

}  // namespace sida
