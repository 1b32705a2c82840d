#include "weights/model_weights.h"

namespace sida {
namespace {

/// Sets the field of `weights` that views one tensor. A bias comes after its matrix.
void place(const DenseTensor& tensor, const std::byte* data, bool tied, ModelWeights& weights) {
  const TensorSlot& slot = tensor.slot;
  const PanelMatrix matrix =
      tensor.panels() ? PanelMatrix{data, tensor.format, tensor.columns(), tensor.rows()} : PanelMatrix{};
  const auto* rows = reinterpret_cast<const float*>(data);
  StackWeights& stack = weights.stacks[slot.stack];
  const auto layer = [&]() -> LayerWeights& { return stack.layers[slot.layer]; };
  switch (slot.role) {
    case TensorRole::kEmbedding:
      if (!tied) {
        stack.embedding = matrix;
        break;
      }
      for (StackWeights& one : weights.stacks) one.embedding = matrix;
      [[fallthrough]];
    case TensorRole::kHead:
      weights.head = matrix;
      break;
    case TensorRole::kEmbeddingBias:
      weights.embedding_bias = rows;
      break;
    case TensorRole::kPositionBias:
      stack.position_bias = rows;
      break;
    case TensorRole::kFinalNorm:
      stack.final_norm.weight = rows;
      break;
    case TensorRole::kFinalNormBias:
      stack.final_norm.bias = rows;
      break;
    case TensorRole::kAttentionNorm:
      layer().self.norm.weight = rows;
      break;
    case TensorRole::kAttentionNormBias:
      layer().self.norm.bias = rows;
      break;
    case TensorRole::kAttentionPostNorm:
      layer().self.post_norm.weight = rows;
      break;
    case TensorRole::kQuery:
      layer().self.query = matrix;
      break;
    case TensorRole::kQueryBias:
      layer().self.query.bias = rows;
      break;
    case TensorRole::kKey:
      layer().self.key = matrix;
      break;
    case TensorRole::kKeyBias:
      layer().self.key.bias = rows;
      break;
    case TensorRole::kValue:
      layer().self.value = matrix;
      break;
    case TensorRole::kValueBias:
      layer().self.value.bias = rows;
      break;
    case TensorRole::kAttentionOutput:
      layer().self.output = matrix;
      break;
    case TensorRole::kAttentionOutputBias:
      layer().self.output.bias = rows;
      break;
    case TensorRole::kSinks:
      layer().self.sinks = rows;
      break;
    case TensorRole::kOutputGate:
      layer().self.gate = matrix;
      break;
    case TensorRole::kBeta:
      layer().self.delta.beta = matrix;
      break;
    case TensorRole::kDecay:
      layer().self.delta.decay = matrix;
      break;
    case TensorRole::kDecayBias:
      layer().self.delta.decay_bias = rows;
      break;
    case TensorRole::kDecayRate:
      layer().self.delta.decay_rate = rows;
      break;
    case TensorRole::kQueryTaps:
      layer().self.delta.query_taps = rows;
      break;
    case TensorRole::kKeyTaps:
      layer().self.delta.key_taps = rows;
      break;
    case TensorRole::kValueTaps:
      layer().self.delta.value_taps = rows;
      break;
    case TensorRole::kDeltaNorm:
      layer().self.delta.norm = rows;
      break;
    case TensorRole::kQueryDown:
      layer().self.latent.query_down = matrix;
      break;
    case TensorRole::kQueryDownBias:
      layer().self.latent.query_down.bias = rows;
      break;
    case TensorRole::kQueryDownNorm:
      layer().self.latent.query_down_norm = rows;
      break;
    case TensorRole::kLatent:
      layer().self.latent.row = matrix;
      break;
    case TensorRole::kLatentBias:
      layer().self.latent.row.bias = rows;
      break;
    case TensorRole::kLatentRotary:
      layer().self.latent.rotary = matrix;
      break;
    case TensorRole::kLatentRotaryBias:
      layer().self.latent.rotary.bias = rows;
      break;
    case TensorRole::kLatentNorm:
      layer().self.latent.norm = rows;
      break;
    case TensorRole::kLatentKey:
      layer().self.latent.keys.push_back(matrix);
      break;
    case TensorRole::kLatentValue:
      layer().self.latent.values.push_back(matrix);
      break;
    case TensorRole::kQueryNorm:
      layer().self.query_norm = rows;
      break;
    case TensorRole::kKeyNorm:
      layer().self.key_norm = rows;
      break;
    case TensorRole::kCrossNorm:
      layer().cross.norm.weight = rows;
      break;
    case TensorRole::kCrossNormBias:
      layer().cross.norm.bias = rows;
      break;
    case TensorRole::kCrossQuery:
      layer().cross.query = matrix;
      break;
    case TensorRole::kCrossQueryBias:
      layer().cross.query.bias = rows;
      break;
    case TensorRole::kCrossKey:
      layer().cross.key = matrix;
      break;
    case TensorRole::kCrossKeyBias:
      layer().cross.key.bias = rows;
      break;
    case TensorRole::kCrossValue:
      layer().cross.value = matrix;
      break;
    case TensorRole::kCrossValueBias:
      layer().cross.value.bias = rows;
      break;
    case TensorRole::kCrossOutput:
      layer().cross.output = matrix;
      break;
    case TensorRole::kCrossOutputBias:
      layer().cross.output.bias = rows;
      break;
    case TensorRole::kFeedForwardNorm:
      layer().feed_forward.norm.weight = rows;
      break;
    case TensorRole::kFeedForwardNormBias:
      layer().feed_forward.norm.bias = rows;
      break;
    case TensorRole::kFeedForwardPostNorm:
      layer().feed_forward.post_norm.weight = rows;
      break;
    case TensorRole::kLayerScale:
      layer().scale = rows;
      break;
    case TensorRole::kGate:
    case TensorRole::kSharedGate:
      layer().feed_forward.ffn.gate = matrix;
      break;
    case TensorRole::kGateBias:
    case TensorRole::kSharedGateBias:
      layer().feed_forward.ffn.gate.bias = rows;
      break;
    case TensorRole::kUp:
    case TensorRole::kSharedUp:
      layer().feed_forward.ffn.up = matrix;
      break;
    case TensorRole::kUpBias:
    case TensorRole::kSharedUpBias:
      layer().feed_forward.ffn.up.bias = rows;
      break;
    case TensorRole::kDown:
    case TensorRole::kSharedDown:
      layer().feed_forward.ffn.down = matrix;
      break;
    case TensorRole::kDownBias:
    case TensorRole::kSharedDownBias:
      layer().feed_forward.ffn.down.bias = rows;
      break;
    case TensorRole::kSharedOutputGate:
      layer().feed_forward.ffn.output_gate = matrix;
      break;
    case TensorRole::kSharedOutputGateBias:
      layer().feed_forward.ffn.output_gate.bias = rows;
      break;
    case TensorRole::kRouter:
      layer().feed_forward.router = matrix;
      break;
    case TensorRole::kRouterBias:
      layer().feed_forward.router.bias = rows;
      break;
    case TensorRole::kRouterCorrection:
      layer().feed_forward.router_correction = rows;
      break;
    case TensorRole::kMoeBias:
      layer().feed_forward.moe_bias = rows;
      break;
    case TensorRole::kRouterInputScale:
      layer().feed_forward.router_norm.weight = rows;
      break;
    case TensorRole::kExpertFactors:
      layer().feed_forward.expert_factors = rows;
      break;
    case TensorRole::kSharedPostNorm:
      layer().feed_forward.shared_post_norm.weight = rows;
      break;
    case TensorRole::kExpertsNorm:
      layer().feed_forward.experts_norm.weight = rows;
      break;
    case TensorRole::kExpertsPostNorm:
      layer().feed_forward.experts_post_norm.weight = rows;
      break;
    case TensorRole::kExpertGate:
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertUpBias:
    case TensorRole::kExpertDown:
    case TensorRole::kExpertDownBias:
      break;
  }
}

}  // namespace

ModelWeights view_weights(const ModelSpec& spec, const DenseLayout& layout, const std::byte* dense) {
  ModelWeights weights;
  size_t moe_layer = 0;
  for (const StackSpec& stack : spec.stacks) {
    StackWeights& views = weights.stacks.emplace_back();
    for (const LayerSpec& layer : stack.layers) {
      FeedForwardWeights& feed_forward = views.layers.emplace_back().feed_forward;
      if (layer.moe() != nullptr) feed_forward.moe_layer = moe_layer++;
    }
  }
  for (const DenseTensor& tensor : layout.tensors) {
    place(tensor, dense + tensor.offset, spec.head.tied, weights);
  }
  return weights;
}

}  // namespace sida
