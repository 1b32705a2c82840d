#include "spec/families/decoder_tensors.h"

#include <charconv>
#include <string>

namespace sida {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

const char* expert_matrix(TensorRole role, const MoeNames& names) {
  switch (role) {
    case TensorRole::kExpertGate:
      return names.gate;
    case TensorRole::kExpertUp:
      return names.up;
    default:
      return names.down;
  }
}

TensorSource expert_source(const ModelSpec& spec, const TensorSlot& slot, const std::string& layer,
                           const MoeNames& names) {
  const MoeSpec& moe = *spec.stacks[slot.stack].layers[slot.layer].moe();
  const std::string matrix = expert_matrix(slot.role, names);
  const bool down = slot.role == TensorRole::kExpertDown, gate = slot.role == TensorRole::kExpertGate;
  const uint64_t hidden = moe.expert.width;
  TensorSource source;
  for (const char* block : names.blocks) {
    const std::string experts = layer + block + "experts.";
    source.candidates.push_back({experts + std::to_string(slot.expert) + "." + matrix + ".weight"});
  }
  for (const char* block : names.blocks) {
    const std::string experts = layer + block + "experts.";
    if (down) {
      source.candidates.push_back({experts + "down_proj", {moe.experts, spec.width, hidden}, slot.expert * spec.width});
    } else {
      source.candidates.push_back({experts + "gate_up_proj",
                                   {moe.experts, 2 * hidden, spec.width},
                                   (2 * slot.expert + (gate ? 0 : 1)) * hidden});
    }
  }
  return source;
}

/// Nullptr for a tensor of the MoE block.
const char* name_in_layer(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionNorm:
      return "input_layernorm.weight";
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
      return "self_attn.o_proj.weight";
    case TensorRole::kAttentionOutputBias:
      return "self_attn.o_proj.bias";
    case TensorRole::kSinks:
      return "self_attn.sinks";
    case TensorRole::kQueryNorm:
      return "self_attn.q_norm.weight";
    case TensorRole::kKeyNorm:
      return "self_attn.k_norm.weight";
    case TensorRole::kFeedForwardNorm:
      return "post_attention_layernorm.weight";
    case TensorRole::kGate:
      return "mlp.gate_proj.weight";
    case TensorRole::kUp:
      return "mlp.up_proj.weight";
    case TensorRole::kDown:
      return "mlp.down_proj.weight";
    default:
      return nullptr;
  }
}

std::string name_in_block(TensorRole role, const MoeNames& names) {
  switch (role) {
    case TensorRole::kSharedGate:
      return names.shared + std::string("gate_proj.weight");
    case TensorRole::kSharedUp:
      return names.shared + std::string("up_proj.weight");
    case TensorRole::kSharedDown:
      return names.shared + std::string("down_proj.weight");
    case TensorRole::kSharedOutputGate:
      return "shared_expert_gate.weight";
    case TensorRole::kRouterCorrection:
      return "gate.e_score_correction_bias";
    default:
      return "gate.weight";
  }
}

}  // namespace

TensorSource decoder_source(const ModelSpec& spec, const TensorSlot& slot, const MoeNames& names) {
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
  if (slot.form == TensorForm::kExpert) return expert_source(spec, slot, layer, names);
  if (const char* name = name_in_layer(slot.role)) return {{{layer + name}}};
  TensorSource source;
  for (const char* block : names.blocks) source.candidates.push_back({layer + block + name_in_block(slot.role, names)});
  return source;
}

TensorSource decoder_source(const ModelSpec& spec, const TensorSlot& slot) {
  return decoder_source(spec, slot, MoeNames{});
}

bool owns_decoder_tensor(const ModelSpec& spec, std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers) || name.ends_with(".rotary_emb.inv_freq")) return false;
  return owns_layer(spec, name.substr(kLayers.size()));
}

bool owns_layer(const ModelSpec& spec, std::string_view number) {
  size_t layer = 0;
  const char* begin = number.data();
  const auto [end, error] = std::from_chars(begin, begin + number.size(), layer);
  if (error != std::errc() || end == begin) return true;
  const size_t layers = spec.last().layers.size();
  return layer < layers || layer >= layers + spec.extra_layers;
}

}  // namespace sida
