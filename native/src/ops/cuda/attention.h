#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace sida::cuda {

/// One layer of a KV cache in pages of kPageTokens tokens, as model/kv_cache.h lays it out: from `first`, page p starts
/// at p · page_floats; in it keys are [heads][head_dim][16], and from `values` on values are
/// [heads][16][head_dim_padded].
struct CacheLayer {
  float* first;        ///< page 0 of this layer
  size_t page_floats;  ///< from page to page
  size_t values;       ///< floats from a page's keys to its values
  uint32_t heads;
  uint32_t head_dim;
  uint32_t head_dim_padded;
};

/// One sequence of a ragged pass, on the device.
struct PagedSequence {
  uint32_t begin;  ///< its first row of the activations
  uint32_t count;  ///< rows
  uint32_t past;   ///< tokens before these
  uint32_t keys;   ///< keys to attend to where not causal
  uint32_t pages;  ///< index into the page table of its first page
};

/// At most kTileRows rows of one sequence.
struct RowTile {
  uint32_t sequence;
  uint32_t row;  ///< counted in the sequence
};

inline constexpr uint32_t kTileRows = 16;
/// Widest head: a tile's queries lie in shared memory.
inline constexpr uint32_t kMaxHeadDim = 256;

/// What the rows of a pass see of a cache. All pointers are the device's.
struct PagedBatch {
  const PagedSequence* sequences;
  const RowTile* tiles;
  size_t tile_count;
  const uint32_t* page_table;
};

/// Writes `rows` (tokens, heads · head_dim) as the keys (values) of the batch's tokens.
void write_keys(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream);
void write_values(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream);

/// Bias of head h for key j and the query at position p is first[h · head_stride + j - p]; a null `first` is none.
struct AttentionBias {
  const float* first;
  size_t head_stride;
};

/// Which scores attention() is made of: scale · q·k + bias.
struct AttentionScores {
  uint32_t heads;  ///< of the queries, a multiple of the cache's: so many neighbours share one head of keys and values
  float scale;
  AttentionBias bias;
  bool causal;  ///< the query at position p sees keys [0, p]; otherwise `keys` of its sequence
};

/// Attention of every row's heads over its sequence's keys, in f32, in place: `q` (tokens, heads · head_dim) become the
/// outputs. A row's bits do not depend on the other rows. Throws cannot_run where heads are wider than kMaxHeadDim.
void attention(const CacheLayer& cache, const PagedBatch& batch, float* q, const AttentionScores& scores,
               cudaStream_t stream);

}  // namespace sida::cuda
