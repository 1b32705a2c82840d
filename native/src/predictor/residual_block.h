#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "predictor/head_attention.h"

namespace sida {

/// y = rms(x) · (1 + gain) of rows (rows, n); `scale` (n) is 1 + gain.
void rms_norm_rows(const float* x, const float* scale, size_t rows, size_t n, float* y);
/// Adds (+=) to dx (rows, n) and to dgain (n).
void rms_norm_backward(const float* x, const float* scale, const float* dy, size_t rows, size_t n, float* dx,
                       float* dgain);

/// A residual block over rows of width h with heads of kHeadWidth:
///   z = x + attention(norm(x)) · W_out,  y = z + relu(norm(z) · W_up + b) · W_down
/// Products with the transposed weights are only needed for training.
struct ResidualBlock {
  size_t hidden = 0;                  ///< h
  std::vector<float> attention_norm;  ///< (h) 1 + gain
  std::vector<float> ffn_norm;        ///< (h) 1 + gain
  std::vector<float> ffn_bias;        ///< (2h)
  std::vector<float> position_table;  ///< (heads, kPositionBuckets)
  PanelMatrix qkv;                    ///< (·, 3h)
  PanelMatrix attention_out;          ///< (·, h)
  PanelMatrix ffn_up;                 ///< (·, 2h)
  PanelMatrix ffn_down;               ///< (·, h)
  PanelMatrix qkv_back;
  PanelMatrix attention_out_back;
  PanelMatrix ffn_up_back;
  PanelMatrix ffn_down_back;

  size_t heads() const { return hidden / kHeadWidth; }
};

struct BlockActivations {
  PositionDiagonals bias;
  AlignedFloats input;             ///< (rows, h) x
  AlignedFloats attention_normed;  ///< (rows, h)
  AlignedFloats qkv;               ///< (rows, 3h), queries times 1 / sqrt(kHeadWidth)
  AlignedFloats attended;          ///< (rows, h)
  AlignedFloats middle;            ///< (rows, h) z
  AlignedFloats ffn_normed;        ///< (rows, h)
  AlignedFloats ffn_hidden;        ///< (rows, 2h)

  size_t bytes() const;
};

struct BlockScratch {
  HeadPages pages;
  HeadAttentionScratch attention;
  AlignedFloats wide;    ///< (rows, 3h)
  AlignedFloats narrow;  ///< (rows, h)
  ProductScratch product;

  size_t bytes() const;
};

struct BlockGradients {
  float* attention_norm;
  float* qkv;
  float* position_table;
  float* attention_out;
  float* ffn_norm;
  float* ffn_up;
  float* ffn_bias;
  float* ffn_down;
};

/// x (rows, h) becomes y in place.
void residual_block_forward(const ResidualBlock& block, std::span<const uint32_t> lengths, bool causal, float* x,
                            BlockActivations* act, BlockScratch* scratch);

/// Adds (+=) to the gradients; dy (rows, h) becomes dx in place.
void residual_block_backward(const ResidualBlock& block, std::span<const uint32_t> lengths, bool causal,
                             const BlockActivations& act, const BlockGradients& gradients, float* dy,
                             BlockScratch* scratch);

/// Adds one token to each sequence: x (sequences, h) becomes y in place. `pages` hold the earlier tokens and this one
/// is appended. `act` is scratch space. Gives the bits of a causal pass.
void residual_block_step(const ResidualBlock& block, std::span<HeadPages* const> pages, float* x, BlockActivations* act,
                         BlockScratch* scratch);

}  // namespace sida
