#include "model/model_weights.h"

namespace sida {
namespace {

/// Sets the field of `weights` that views one tensor.
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
    case TensorRole::kPositionBias:
      stack.position_bias = rows;
      break;
    case TensorRole::kFinalNorm:
      stack.final_norm = rows;
      break;
    case TensorRole::kAttentionNorm:
      layer().self.norm = rows;
      break;
    case TensorRole::kQuery:
      layer().self.query = matrix;
      break;
    case TensorRole::kKey:
      layer().self.key = matrix;
      break;
    case TensorRole::kValue:
      layer().self.value = matrix;
      break;
    case TensorRole::kAttentionOutput:
      layer().self.output = matrix;
      break;
    case TensorRole::kQueryNorm:
      layer().self.query_norm = rows;
      break;
    case TensorRole::kKeyNorm:
      layer().self.key_norm = rows;
      break;
    case TensorRole::kCrossNorm:
      layer().cross.norm = rows;
      break;
    case TensorRole::kCrossQuery:
      layer().cross.query = matrix;
      break;
    case TensorRole::kCrossKey:
      layer().cross.key = matrix;
      break;
    case TensorRole::kCrossValue:
      layer().cross.value = matrix;
      break;
    case TensorRole::kCrossOutput:
      layer().cross.output = matrix;
      break;
    case TensorRole::kFeedForwardNorm:
      layer().feed_forward.norm = rows;
      break;
    case TensorRole::kGate:
      layer().feed_forward.gate = matrix;
      break;
    case TensorRole::kUp:
      layer().feed_forward.up = matrix;
      break;
    case TensorRole::kDown:
      layer().feed_forward.down = matrix;
      break;
    case TensorRole::kRouter:
      layer().feed_forward.router = matrix;
      break;
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown:
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
