#include <string>

#include "model/families/olmoe/olmoe.h"

namespace sida {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

/// Checkpoints on the hub have one tensor for each matrix. Newer files may hold all gate and up projections of a layer
/// in one tensor (experts, 2 · hidden, width), gates first, and all down projections in another.
TensorSource expert_source(const ModelSpec& spec, const TensorSlot& slot, const std::string& layer) {
  const MoeSpec& moe = *spec.stacks[slot.stack].layers[slot.layer].moe();
  const std::string experts = layer + "mlp.experts.", own = experts + std::to_string(slot.expert) + ".";
  if (slot.role == TensorRole::kExpertDown) {
    const uint64_t rows = spec.width;
    return {{{own + "down_proj.weight"},
             {experts + "down_proj", {moe.experts, rows, moe.expert.width}, slot.expert * rows}}};
  }
  const bool gate = slot.role == TensorRole::kExpertGate;
  const uint64_t rows = moe.expert.width;
  return {{{own + (gate ? "gate_proj.weight" : "up_proj.weight")},
           {experts + "gate_up_proj", {moe.experts, 2 * rows, spec.width}, (2 * slot.expert + (gate ? 0 : 1)) * rows}}};
}

const char* name_in_layer(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionNorm:
      return "input_layernorm.weight";
    case TensorRole::kQuery:
      return "self_attn.q_proj.weight";
    case TensorRole::kKey:
      return "self_attn.k_proj.weight";
    case TensorRole::kValue:
      return "self_attn.v_proj.weight";
    case TensorRole::kAttentionOutput:
      return "self_attn.o_proj.weight";
    case TensorRole::kQueryNorm:
      return "self_attn.q_norm.weight";
    case TensorRole::kKeyNorm:
      return "self_attn.k_norm.weight";
    case TensorRole::kFeedForwardNorm:
      return "post_attention_layernorm.weight";
    default:
      return "mlp.gate.weight";
  }
}

TensorSource olmoe_source(const ModelSpec& spec, const TensorSlot& slot) {
  switch (slot.role) {
    case TensorRole::kEmbedding:
      if (spec.head.tied) return {{{kEmbedding}, {kHead}}};
      return {{{kEmbedding}}};
    case TensorRole::kHead:
      return {{{kHead}}};
    case TensorRole::kFinalNorm:
      return {{{"model.norm.weight"}}};
    default:
      break;
  }
  const std::string layer = "model.layers." + std::to_string(slot.layer) + ".";
  if (slot.form == TensorForm::kExpert) return expert_source(spec, slot, layer);
  return {{{layer + name_in_layer(slot.role)}}};
}

/// Old code also wrote the rotary frequencies, which follow from the config.
bool owns_olmoe_tensor(std::string_view name) {
  return name.starts_with("model.layers.") && !name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

constexpr Family kOlmoe{"olmoe", read_olmoe_config, olmoe_source, owns_olmoe_tensor};

}  // namespace sida
