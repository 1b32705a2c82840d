#pragma once

#include <cstddef>
#include <vector>

#include "model/dense_layout.h"
#include "ops/panels.h"

namespace sida {

struct AttentionWeights {
  const float* norm;
  PanelMatrix q, k, v, o;
};

struct FeedForwardWeights {
  const float* norm;
  bool sparse;
  PanelMatrix wi, wo;  ///< dense layers
  PanelMatrix router;  ///< MoE layers; null data where `layout` has no routers
  size_t moe_layer;    ///< flat MoE layer number, encoder first
};

struct LayerWeights {
  AttentionWeights self;
  AttentionWeights cross;  ///< decoder only
  FeedForwardWeights feed_forward;
};

struct StackWeights {
  PanelMatrix embedding;  ///< (vocab, d_model)
  std::vector<LayerWeights> layers;
  const float* final_norm;
  const float* position_bias;  ///< (buckets, heads)
};

/// Views into a dense file in memory, with or without its routers.
struct SwitchWeights {
  PanelMatrix head;  ///< (vocab, d_model); also both embeddings when tied
  StackWeights encoder;
  StackWeights decoder;
};

SwitchWeights view_weights(const SwitchConfig& config, const DenseLayout& layout, const std::byte* dense);

}  // namespace sida
