#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/switch_model.h"

namespace sida {

/// Tokens of one MoE layer sorted by expert, token order kept.
struct Dispatch {
  std::vector<uint16_t> expert;  ///< (tokens): kDropped over capacity
  std::vector<float> alpha;      ///< (tokens): router probability of the chosen expert
  std::vector<uint32_t> order;   ///< token indices, by expert
  std::vector<uint32_t> begin;   ///< (experts + 1): where an expert's tokens start in `order`
  std::vector<uint16_t> needed;  ///< experts with tokens, ascending
};

/// Top-1 routing with capacity, as transformers does it: softmax in float32, the first of equal maxima,
/// capacity counted per sequence in token order. `logits` (tokens, experts) become probabilities in place.
Dispatch route_top1(float* logits, size_t tokens, size_t experts, size_t capacity,
                    std::span<const SequenceSpan> sequences);

}  // namespace sida
