#pragma once

#include <cstdint>
#include <span>

#include "core/thread_pool.h"
#include "ops/linear.h"

namespace sida {

/// One expert's share of a layer's rows.
struct ExpertRows {
  PanelMatrix wi;         ///< (d_ff, d_model)
  PanelMatrix wo;         ///< (d_model, d_ff)
  const uint32_t* order;  ///< its choices; choice c reads row c / k of the layer's input
  size_t rows;
  float* y;  ///< (rows, d_model), in the order of `order`
};

/// Memory of expert_ffn(), for `rows` rows at a time.
struct ExpertScratch {
  size_t rows;
  float* inputs;  ///< (rows, d_model)
  float* hidden;  ///< (rows, hidden_stride)
  size_t hidden_stride;
  Int8Scratch
      int8;  ///< quantized_bytes() of min(rows, kInt8Rows) rows of the wider side; empty: f32 activations
};

/// y = max(x · wi, 0) · wo for the rows of each expert of a group; x (tokens, d_model). All of the group's
/// weights are read at most once for every `scratch.rows` rows, first all wi and then all wo, in pieces
/// shared among the threads. A row's bits do not depend on the group.
void expert_ffn(ThreadPool& pool, std::span<const ExpertRows> group, const float* x, size_t k,
                const ExpertScratch& scratch);

}  // namespace sida
