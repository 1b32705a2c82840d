#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda/attention.h"
#include "spec/spec.h"

// Gated delta rules. All pointers are to device memory.
namespace sida::cuda {

/// The states of a layer: that of page p begins p · page_floats behind page0.
struct StateLayer {
  float* page0;
  size_t page_floats;
};

/// Columns that a convolution takes: x (tokens, width), in place, behind the inputs that a sequence keeps from float
/// `kept` of its state on.
struct Convolution {
  float* x;
  const float* taps;  ///< (width, count)
  size_t width, count, kept;
};

/// Of `sequences` sequences of the batch.
void convolve(const StateLayer& layer, const PagedBatch& batch, size_t sequences, const Convolution& of,
              cudaStream_t stream);

/// x (rows, n) · length / sqrt(sum of squares + kUnitEpsilon), in place.
void unit_rows(float* x, size_t rows, size_t n, float length, cudaStream_t stream);

/// Logits (tokens, heads) of β and of decays become β and α, in place.
struct DeltaRates {
  float *betas, *decays;
  const float *bias, *rate;  ///< (heads)
  size_t tokens, heads;
};
void make_rates(const DeltaRates& rates, cudaStream_t stream);

struct DeltaHeads {
  const float *queries, *keys;  ///< (tokens, key width)
  float* values;                ///< (tokens, value width); become answers
  const float *betas, *decays;  ///< (tokens, value heads)
  size_t key_heads, value_heads, key_dim, value_dim, state_stride, kept_inputs;
  bool tiled;
};
void delta_rule(const StateLayer& layer, const PagedBatch& batch, size_t sequences, const DeltaHeads& heads,
                cudaStream_t stream);

/// x (count) times the sigmoids of `logits`, or their SiLUs.
void gate(bool silu, const float* logits, float* x, size_t count, cudaStream_t stream);

}  // namespace sida::cuda
