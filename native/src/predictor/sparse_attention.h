#pragma once

#include <cstddef>

#include "predictor/matrix_product.h"

namespace sida {

/// Self-attention whose queries, keys and values are the same rows y (tokens, h) of one sequence, with
/// SparseMax in the place of softmax:
///   weights (tokens, tokens) = sparsemax(y · yᵀ / sqrt(h)), row by row; causal: over keys 0 … row only
///   out (tokens, h) = y + weights · y
struct SparseAttentionScratch {
  AlignedFloats panels;
  AlignedFloats scores;
};

/// Overwrites weights and out. `out` is not y.
void sparse_attention_forward(const float* y, size_t tokens, size_t hidden, bool causal, float* weights,
                              float* out, SparseAttentionScratch* scratch);

/// Overwrites (=) dy with the gradient of y. `dout` (tokens, h) is not dy.
void sparse_attention_backward(const float* y, const float* weights, const float* dout, size_t tokens,
                               size_t hidden, float* dy, SparseAttentionScratch* scratch);

/// One query over the keys y (keys, h); the query is the last key. `panels` are y transposed. Gives the bits of the
/// last row of a causal pass. `weights` has room for `keys` floats.
void sparse_attention_step(const float* y, const PanelMatrix& panels, float* weights, float* out);

}  // namespace sida
