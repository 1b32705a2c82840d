#pragma once

#include <cstddef>
#include <vector>

#include "spec/spec.h"
#include "weights/dense_layout.h"
#include "weights/panels.h"

namespace sida {

/// Of a norm over the hidden states.
struct NormWeights {
  const float* weight;          ///< null: 1
  const float* bias = nullptr;  ///< null: an RMS norm, otherwise a layer norm
};

/// Of latent attention, as tensors.h has them. Null where the layer has none.
struct LatentWeights {
  PanelMatrix query_down;
  const float* query_down_norm;
  PanelMatrix row, rotary;
  const float* norm;
  std::vector<PanelMatrix> keys, values;  ///< (heads)
};

/// Of a delta rule. Null where the layer has none.
struct DeltaWeights {
  PanelMatrix beta, decay;
  const float *decay_bias, *decay_rate;             ///< (value heads)
  const float *query_taps, *key_taps, *value_taps;  ///< (columns, taps)
  const float* norm;                                ///< (value_dim)
};

/// Null where the layer has none.
struct AttentionWeights {
  NormWeights norm;
  NormWeights post_norm;
  PanelMatrix query, key, value, output, gate;
  const float* query_norm;
  const float* key_norm;
  const float* sinks;  ///< (heads)
  LatentWeights latent;
  DeltaWeights delta;
};

/// A dense network, or a shared expert. `gate` has null data where the activation is not gated.
struct FfnWeights {
  PanelMatrix gate, up, down;
  /// (1, width) of a sigmoid or (2, width) of a softmax (spec.h); null data: the output is not scaled.
  PanelMatrix output_gate;
};

struct FeedForwardWeights {
  NormWeights norm;
  FfnWeights ffn;                  ///< of a dense layer, or the shared expert of a MoE layer
  PanelMatrix router;              ///< of MoE layers; null data where `layout` has no routers
  const float* router_correction;  ///< (experts); null: none
  const float* moe_bias;           ///< (width), of the chosen experts' sum; null: none
  NormWeights router_norm;         ///< of the router's own input
  const float* expert_factors;     ///< (experts); null: none
  NormWeights shared_post_norm, experts_norm, experts_post_norm, post_norm;
  size_t moe_layer;  ///< flat index of a MoE layer
};

struct LayerWeights {
  AttentionWeights self;
  AttentionWeights cross;  ///< null data where the layer has none
  FeedForwardWeights feed_forward;
  const float* scale;  ///< (1) of the layer's outputs; null: none
};

struct StackWeights {
  PanelMatrix embedding;  ///< (vocab, width)
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  const float* position_bias;  ///< (buckets, heads); null where the stack has none
};

/// Views into a dense file in memory, with or without its routers.
struct ModelWeights {
  std::vector<StackWeights> stacks;
  PanelMatrix head;                       ///< (vocab, width); null data where there is none
  const float* embedding_bias = nullptr;  ///< (width); null: none
};

ModelWeights view_weights(const ModelSpec& spec, const DenseLayout& layout, const std::byte* dense);

}  // namespace sida
