#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "spec/kv_page.h"

namespace sida::cuda {

/// One layer of a KV cache in pages of kPageTokens tokens, in the layout of kv/kv_layout.h. Page p starts
/// p · page_elements elements behind page0. Its keys are [heads][head_dim][16]; its values, `values` elements later,
/// are [heads][16][head_dim_padded].
struct CacheLayer {
  void* page0;           ///< this layer's part of page 0
  size_t page_elements;  ///< from page to page
  size_t values;         ///< elements from a page's keys to its values
  uint32_t heads;
  uint32_t head_dim;
  uint32_t head_dim_padded;
  KvFormat format = KvFormat::kF32;
};

/// One sequence of a ragged pass, on the device.
struct PagedSequence {
  uint32_t begin;           ///< its first row of the activations
  uint32_t count;           ///< rows
  uint32_t past;            ///< tokens before these
  uint32_t keys;            ///< keys to attend to where not causal
  uint32_t pages;           ///< index of its page `first_page` in the page table
  uint32_t first_page = 0;  ///< no row sees a page before it
};

/// At most kTileRows rows of one sequence.
struct RowTile {
  uint32_t sequence;
  uint32_t row;  ///< counted in the sequence
};

inline constexpr uint32_t kTileRows = 16;
/// Widest head: a tile's queries must fit shared memory.
inline constexpr uint32_t kMaxHeadDim = 512;

/// The rows of a pass and the pages of their sequences. All pointers are to device memory.
struct PagedBatch {
  const PagedSequence* sequences;
  const RowTile* tiles;
  size_t tile_count;
  const uint32_t* page_table;
};

/// Writes `rows` (tokens, heads · head_dim) as the keys (values) of the batch's tokens.
void write_keys(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream);
void write_values(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream);

/// The bias of head h for key j and the query at position p is at_distance_0[h · head_stride + j - p]; null: no bias.
struct AttentionBias {
  const float* at_distance_0;
  size_t head_stride;
};

/// The scores of attention(): scale · q·k + bias.
struct AttentionScores {
  /// Query heads, a multiple of the cache's heads: that many neighbours share one head of keys and values.
  uint32_t heads;
  float scale;
  AttentionBias bias;
  bool causal;                   ///< the query at position p sees keys [0, p]; otherwise `keys` of its sequence
  uint32_t window = UINT32_MAX;  ///< of those it sees the last ones
  const float* sinks = nullptr;  ///< (heads): scores that take part in the softmax and have no value; null: none
};

/// Attention of every row's heads over its sequence's keys, in f32, in place: `q` (tokens, heads · head_dim) become the
/// outputs. A row's bits do not depend on the other rows. Throws cannot_run where heads are wider than kMaxHeadDim.
void attention(const CacheLayer& cache, const PagedBatch& batch, float* q, const AttentionScores& scores,
               cudaStream_t stream);

}  // namespace sida::cuda
