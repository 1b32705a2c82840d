#include "model/switch_weights.h"

#include <string>
#include <unordered_map>

namespace sida {
namespace {

class WeightViews {
 public:
  WeightViews(const DenseLayout& layout, const std::byte* dense) : dense_(dense) {
    for (const DenseTensor& tensor : layout.tensors) by_name_.emplace(tensor.name, &tensor);
  }

  PanelMatrix panels(const std::string& name) const {
    const DenseTensor& tensor = *by_name_.at(name);
    return {dense_ + tensor.offset, tensor.format, tensor.shape[1], tensor.shape[0]};
  }
  PanelMatrix panels_if_present(const std::string& name) const {
    return by_name_.contains(name) ? panels(name) : PanelMatrix{};
  }
  const float* rows(const std::string& name) const {
    return reinterpret_cast<const float*>(dense_ + by_name_.at(name)->offset);
  }
  AttentionWeights attention(const std::string& prefix, const std::string& kind) const {
    return {rows(prefix + "layer_norm.weight"), panels(prefix + kind + ".q.weight"),
            panels(prefix + kind + ".k.weight"), panels(prefix + kind + ".v.weight"),
            panels(prefix + kind + ".o.weight")};
  }

 private:
  const std::byte* dense_;
  std::unordered_map<std::string, const DenseTensor*> by_name_;
};

}  // namespace

SwitchWeights view_weights(const SwitchConfig& config, const DenseLayout& layout, const std::byte* dense) {
  const WeightViews views(layout, dense);
  size_t moe_layer = 0;
  const auto stack = [&](const std::string& name, int layers, bool decoder) {
    StackWeights weights;
    weights.embedding =
        views.panels(config.tie_word_embeddings ? "shared.weight" : name + ".embed_tokens.weight");
    for (int i = 0; i < layers; ++i) {
      const std::string block = name + ".block." + std::to_string(i) + ".layer.";
      LayerWeights layer{};
      layer.self = views.attention(block + "0.", "SelfAttention");
      if (decoder) layer.cross = views.attention(block + "1.", "EncDecAttention");
      const std::string mlp = block + (decoder ? "2." : "1.");
      FeedForwardWeights& ff = layer.feed_forward;
      ff.norm = views.rows(mlp + "layer_norm.weight");
      ff.sparse = decoder ? config.decoder_sparse(i) : config.encoder_sparse(i);
      if (ff.sparse) {
        ff.router = views.panels_if_present(mlp + "mlp.router.classifier.weight");
        ff.moe_layer = moe_layer++;
      } else {
        ff.wi = views.panels(mlp + "mlp.wi.weight");
        ff.wo = views.panels(mlp + "mlp.wo.weight");
      }
      weights.layers.push_back(layer);
    }
    weights.final_norm = views.rows(name + ".final_layer_norm.weight");
    weights.position_bias =
        views.rows(name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    return weights;
  };
  SwitchWeights weights;
  weights.head = views.panels(config.tie_word_embeddings ? "shared.weight" : "lm_head.weight");
  weights.encoder = stack("encoder", config.num_layers, false);
  weights.decoder = stack("decoder", config.num_decoder_layers, true);
  return weights;
}

}  // namespace sida
