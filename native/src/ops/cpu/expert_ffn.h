#pragma once

#include <cstdint>
#include <span>

#include "core/thread_pool.h"
#include "ops/cpu/linear.h"
#include "spec/activation.h"

namespace sida {

/// One expert and its rows of a layer.
struct ExpertRows {
  PanelMatrix gate;       ///< (hidden, width); null data: not gated
  PanelMatrix up;         ///< (hidden, width)
  PanelMatrix down;       ///< (width, hidden)
  const uint32_t* order;  ///< its choices: choice c reads row c / k of the layer's input; null: the first rows in order
  size_t rows;
  float* y;                       ///< (rows, width), in the order of `order`
  const float* scales = nullptr;  ///< (rows): factors of the rows' outputs; null: none
};

/// Scratch memory of expert_ffn(), for `rows` rows at a time.
struct ExpertScratch {
  size_t rows;
  float* inputs;  ///< (rows, width)
  float* hidden;  ///< (rows, hidden_stride)
  size_t hidden_stride;
  RoundedScratch rounded;  ///< for rows of the wider side
};

/// y = epilogue(down · activation(gate · x, up · x)) for the rows of each expert of a group; x (tokens, width). The
/// group's weights are read at most once for every `scratch.rows` rows: first all gate and up projections, then all
/// down projections, in chunks shared among the threads. A row's bits do not depend on the group.
void expert_ffn(ThreadPool& pool, std::span<const ExpertRows> group, const float* x, size_t k, Activation activation,
                const ExpertScratch& scratch, Epilogue epilogue = Epilogue::kStore);

}  // namespace sida
