#pragma once

#include <cstddef>

#include "ops/ops.h"
#include "spec/spec.h"
#include "weights/model_weights.h"

namespace sida {

/// hidden += norm(branch) over the rows of a pass.
inline void add_branch(Ops& ops, const ModelSpec& model, const NormWeights& norm, size_t tokens) {
  const Activations& a = ops.activations();
  ops.norm(a.branch, norm, model.norm_epsilon, tokens, model.width, a.branch);
  ops.add(a.branch, tokens * model.width, a.hidden);
}

}  // namespace sida
