#pragma once

#include <cstddef>
#include <vector>

#include "model/dense_layout.h"
#include "model/spec.h"
#include "ops/panels.h"

namespace sida {

struct AttentionWeights {
  const float* norm;
  PanelMatrix query, key, value, output;
  const float* query_norm;  ///< null where the layer has none
  const float* key_norm;    ///< null where the layer has none
};

struct FeedForwardWeights {
  const float* norm;
  PanelMatrix gate, up, down;  ///< of dense layers; `gate` has null data where the activation is not gated
  PanelMatrix router;          ///< of MoE layers; null data where `layout` has no routers
  size_t moe_layer;            ///< flat index of a MoE layer
};

struct LayerWeights {
  AttentionWeights self;
  AttentionWeights cross;  ///< null data where the layer has none
  FeedForwardWeights feed_forward;
};

struct StackWeights {
  PanelMatrix embedding;  ///< (vocab, width)
  std::vector<LayerWeights> layers;
  const float* final_norm;
  const float* position_bias;  ///< (buckets, heads); null where the stack has none
};

/// Views into a dense file in memory, with or without its routers.
struct ModelWeights {
  std::vector<StackWeights> stacks;
  PanelMatrix head;  ///< (vocab, width)
};

ModelWeights view_weights(const ModelSpec& spec, const DenseLayout& layout, const std::byte* dense);

}  // namespace sida
