#pragma once

#include <cstddef>

#include "ops/ops.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

namespace sida {

/// normed = norm(hidden), the input of a layer's attention or network. Where sums go on from norms, hidden becomes the
/// same: two norms of the same row give the same bits.
inline void norm_input(Ops& ops, const ModelSpec& model, const NormWeights& weights, size_t tokens) {
  const Activations& a = ops.activations();
  ops.norm(a.hidden, weights, model.norm_epsilon, tokens, model.width, a.normed);
  if (model.sums_from_norms) ops.norm(a.hidden, weights, model.norm_epsilon, tokens, model.width, a.hidden);
}

}  // namespace sida
