#include <string>

#include "spec/families/switch_transformers/switch_transformers.h"

namespace sida {
namespace {

constexpr const char* kShared = "shared.weight";
constexpr const char* kSwitchHead = "lm_head.weight";

std::string own_embedding(const ModelSpec& spec, size_t stack) {
  return spec.stacks[stack].name + ".embed_tokens.weight";
}

/// A writer that stores a shared tensor once may keep any of its names.
TensorSource embedding_source(const ModelSpec& spec, const TensorSlot& slot) {
  if (spec.head.tied) return {{{kShared}, {own_embedding(spec, 0)}, {own_embedding(spec, 1)}, {kSwitchHead}}};
  return {{{own_embedding(spec, slot.stack)}, {kShared}}};
}

/// The name inside a layer's part, where attention is the first part, cross-attention the decoder's second and the
/// feed-forward network the last.
const char* name_in_part(TensorRole role) {
  switch (role) {
    case TensorRole::kQuery:
    case TensorRole::kCrossQuery:
      return "q.weight";
    case TensorRole::kKey:
    case TensorRole::kCrossKey:
      return "k.weight";
    case TensorRole::kValue:
    case TensorRole::kCrossValue:
      return "v.weight";
    case TensorRole::kAttentionOutput:
    case TensorRole::kCrossOutput:
      return "o.weight";
    case TensorRole::kPositionBias:
      return "relative_attention_bias.weight";
    case TensorRole::kRouter:
      return "router.classifier.weight";
    case TensorRole::kUp:
    case TensorRole::kSharedUp:
    case TensorRole::kExpertUp:
      return "wi.weight";
    case TensorRole::kDown:
    case TensorRole::kSharedDown:
    case TensorRole::kExpertDown:
      return "wo.weight";
    case TensorRole::kSharedOutputGate:
      return "coefficient.weight";
    case TensorRole::kSharedOutputGateBias:
      return "coefficient.bias";
    default:
      return "layer_norm.weight";
  }
}

TensorSource switch_source(const ModelSpec& spec, const TensorSlot& slot) {
  if (slot.role == TensorRole::kEmbedding) return embedding_source(spec, slot);
  if (slot.role == TensorRole::kHead) return {{{kSwitchHead}}};
  const std::string stack = spec.stacks[slot.stack].name + ".";
  if (slot.role == TensorRole::kFinalNorm) return {{{stack + "final_layer_norm.weight"}}};
  const std::string layer = stack + "block." + std::to_string(slot.layer) + ".layer.";
  const std::string feed_forward = layer + (spec.stacks[slot.stack].layers[slot.layer].cross ? "2." : "1.");
  const std::string name = name_in_part(slot.role);
  switch (slot.role) {
    case TensorRole::kAttentionNorm:
      return {{{layer + "0." + name}}};
    case TensorRole::kCrossNorm:
      return {{{layer + "1." + name}}};
    case TensorRole::kCrossQuery:
    case TensorRole::kCrossKey:
    case TensorRole::kCrossValue:
    case TensorRole::kCrossOutput:
      return {{{layer + "1.EncDecAttention." + name}}};
    case TensorRole::kFeedForwardNorm:
      return {{{feed_forward + name}}};
    case TensorRole::kRouter:
    case TensorRole::kUp:
    case TensorRole::kDown:
    case TensorRole::kSharedOutputGate:
    case TensorRole::kSharedOutputGateBias:
      return {{{feed_forward + "mlp." + name}}};
    case TensorRole::kSharedUp:
    case TensorRole::kSharedDown:
      return {{{feed_forward + "mlp.mlp." + name}}};
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown:
      return {{{feed_forward + "mlp.experts.expert_" + std::to_string(slot.expert) + "." + name}}};
    default:
      return {{{layer + "0.SelfAttention." + name}}};
  }
}

/// Old T5 code also wrote a bias that no model uses.
bool owns_switch_tensor(const ModelSpec&, std::string_view name) {
  if (name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight") return false;
  return name.starts_with("encoder.block.") || name.starts_with("decoder.block.");
}

}  // namespace

constexpr Family kSwitchTransformers{"switch_transformers", read_switch_config, switch_source, owns_switch_tensor};

}  // namespace sida
