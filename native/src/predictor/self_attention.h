#pragma once

#include <cstddef>

#include "predictor/matrix_product.h"
#include "predictor/predictor_config.h"

namespace sida {

struct SelfAttentionScratch {
  AlignedFloats panels;
  AlignedFloats scores;
};

struct SelfAttentionForm {
  bool causal = false;  ///< a row sees the keys up to its own, otherwise all keys
  WeightFunction weights = WeightFunction::kSparsemax;
};

/// Self-attention whose queries, keys and values are the same rows y (tokens, h) of one sequence:
///   weights (tokens, tokens) = sparsemax or softmax of y · yᵀ / sqrt(h), row by row; zero for keys not seen
///   out (tokens, h) = y + weights · y
/// Overwrites weights and out. `out` is not y.
void self_attention_forward(const float* y, size_t tokens, size_t hidden, SelfAttentionForm form, float* weights,
                            float* out, SelfAttentionScratch* scratch);

/// The same bits without the weights, which would take the square of the tokens: it holds those of a few rows.
void self_attention(const float* y, size_t tokens, size_t hidden, SelfAttentionForm form, float* out,
                    SelfAttentionScratch* scratch);

/// Overwrites (=) dy with the gradient of y. `dout` (tokens, h) is not dy.
void self_attention_backward(const float* y, const float* weights, const float* dout, size_t tokens, size_t hidden,
                             WeightFunction form, float* dy, SelfAttentionScratch* scratch);

/// One query over the keys y (keys, h); the query is the last key. `panels` are y transposed. Gives the bits of the
/// last row of a causal pass. `weights` has room for `keys` floats.
void self_attention_step(const float* y, const PanelMatrix& panels, WeightFunction form, float* weights, float* out);

}  // namespace sida
