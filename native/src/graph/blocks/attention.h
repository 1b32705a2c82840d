#pragma once

#include <cstddef>

#include "ops/ops.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

// Attention of a layer over the rows of a pass: hidden += attention(norm(hidden)), or its norm.
namespace sida {

/// A layer's place in its model and in the cache.
struct LayerPlace {
  const ModelSpec& model;
  const StackSpec& stack;
  size_t cache_layer;
};

/// Over the sequence's own keys, which are written to the cache first.
void self_attention(Ops& ops, const LayerPlace& at, const AttentionSpec& spec, const AttentionWeights& weights,
                    size_t tokens);

/// The delta rule of a layer that has it in place of attention.
void delta_attention(Ops& ops, const LayerPlace& at, const DeltaSpec& spec, const AttentionWeights& weights,
                     size_t tokens);

/// Over the parent sequence's keys in the cache.
void cross_attention(Ops& ops, const LayerPlace& at, const AttentionSpec& spec, const AttentionWeights& weights,
                     size_t tokens);

/// Writes the keys and values of the pass's final states (normed) into `cache_layer`, for later sequences'
/// cross-attention.
void write_cross_keys(Ops& ops, const AttentionWeights& weights, size_t cache_layer, size_t tokens);

}  // namespace sida
