#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/sequence_span.h"
#include "ops/predicted_routing.h"

namespace sida {

/// The choices of one MoE layer's tokens, `k` each, sorted by expert, token order kept. Choice c belongs to token c /
/// k. Reused from layer to layer, so that routing allocates nothing once its vectors have grown.
struct Dispatch {
  size_t k = 1;
  std::vector<uint16_t> expert;  ///< (tokens, k): kNoExpert where the expert is over capacity or none is named
  std::vector<float> alpha;      ///< (tokens, k): factor of the expert's output
  std::vector<uint32_t> order;   ///< choices, by expert
  std::vector<uint32_t> begin;   ///< (experts + 1): where an expert's choices start in `order`
  std::vector<uint16_t> needed;  ///< experts with tokens, ascending
  std::vector<uint32_t> count;   ///< (experts): scratch
};

/// Sets k, expert and alpha from a checked routing table, for `layer` of the pass. `scale` multiplies the table's
/// factors, as it does the router's.
void choose_predicted(const PredictedRouting& routing, size_t layer, size_t tokens, double scale, Dispatch& dispatch);

/// Multiplies the factor of each choice by that of its expert.
void weigh_choices(const float* factors, Dispatch& dispatch);

/// Sets the other fields from k and expert. Each expert keeps the first `capacity` choices of a sequence, in token
/// order and then in the order of a token's choices.
void sort_choices(size_t experts, size_t capacity, std::span<const SequenceSpan> sequences, Dispatch& dispatch);

}  // namespace sida
