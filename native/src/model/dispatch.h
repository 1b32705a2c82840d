#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/predicted_routing.h"
#include "model/sequence_span.h"

namespace sida {


/// The choices of one MoE layer's tokens, `k` each, sorted by expert, token order kept. Choice c is token
/// c / k's. Reused from layer to layer, so that routing allocates nothing once its vectors have grown.
struct Dispatch {
  size_t k = 1;
  std::vector<uint16_t> expert;  ///< (tokens, k): kNoExpert over capacity and where nobody is named
  std::vector<float> alpha;      ///< (tokens, k): what the expert's output is scaled by
  std::vector<uint32_t> order;   ///< choices, by expert
  std::vector<uint32_t> begin;   ///< (experts + 1): where an expert's choices start in `order`
  std::vector<uint16_t> needed;  ///< experts with tokens, ascending
  std::vector<uint32_t> count;   ///< (experts): scratch
};

/// Top-1 routing with capacity, as transformers does it: softmax in float32, the first of equal maxima,
/// capacity counted per sequence in token order. `logits` (tokens, experts) become probabilities in place.
void route_top1(float* logits, size_t tokens, size_t experts, size_t capacity,
                std::span<const SequenceSpan> sequences, Dispatch& dispatch);

/// The same from choices made elsewhere: `dispatch.expert` and, where it is wanted, `dispatch.alpha` are set,
/// k too.
void sort_choices(size_t experts, size_t capacity, std::span<const SequenceSpan> sequences,
                  Dispatch& dispatch);

/// Routing as a checked table names it for `layer` of the pass. Capacity as above, counted in token order and
/// then in the order of a token's choices.
void route_predicted(const PredictedRouting& routing, size_t layer, size_t tokens, size_t experts,
                     size_t capacity, std::span<const SequenceSpan> sequences, Dispatch& dispatch);

}  // namespace sida
