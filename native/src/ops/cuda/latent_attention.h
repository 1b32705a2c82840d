#pragma once

#include "ops/cuda/attention.h"

namespace sida::cuda {

/// One layer of a cache of latent rows in pages of kPageTokens tokens, in the layout of kv/kv_layout.h: page p
/// starts p · page_elements elements behind page0 and is [16][stride].
struct LatentLayer {
  void* page0;
  size_t page_elements;
  uint32_t stride;
  KvFormat format = KvFormat::kF32;
};

/// The two parts of the rows to cache: (tokens, rank) and (tokens, rotary).
struct LatentRows {
  const float* rank_part;
  const float* rotary_part;
  uint32_t rank;
  uint32_t rotary;
};

/// Widest row of a cache.
inline constexpr uint32_t kMaxLatentRow = 1024;

/// Writes the rows of the batch's tokens.
void write_latent(const LatentLayer& cache, const PagedBatch& batch, const LatentRows& rows, cudaStream_t stream);

/// Rows [first_row, ...) of the activations whose heads have queries over cached rows: `queries` and `outputs` are
/// (rows, heads, stride).
struct LatentQueries {
  float* queries;
  float* outputs;
  uint32_t heads;
  uint32_t first_row;
  uint32_t rank;
  uint32_t rotary;
  float scale;
};

/// Copies the rotated columns of `q` (tokens, heads · head_dim), the last ones of each head, behind those that were
/// projected onto cached rows.
void take_rotated(const float* q, uint32_t head_dim, const LatentQueries& to, uint32_t stride, uint32_t rows,
                  cudaStream_t stream);

/// Causal attention of the rows of tiles [first_tile, first_tile + tiles) of the batch. A row's bits do not depend on
/// the other rows.
void latent_attention(const LatentLayer& cache, const PagedBatch& batch, uint32_t first_tile, uint32_t tiles,
                      const LatentQueries& queries, cudaStream_t stream);

}  // namespace sida::cuda
