#pragma once

#include "ops/cuda/attention.h"
#include "ops/cuda/kv_elements.cuh"
#include "ops/cuda/warp.h"
#include "spec/kv_page.h"

// The work of a block of attention(): a tile of rows of one sequence and one head. Warp p % kSplits takes page p of the
// keys and runs an online softmax over its pages in order; the warps' results are then added in the order of the warps.
// The order of a row's sums depends only on its position, so that one row by itself (attention_row.h) and the same row
// in a tile (attention_tile.h) agree bit for bit. No sum is left to the compiler's contraction.
namespace sida::cuda {

inline constexpr unsigned kSplits = 8;
inline constexpr unsigned kAttentionThreads = kSplits * kWarp;
/// Columns of the values that a warp's lanes cover at a time.
inline constexpr unsigned kColumns = 64;
inline constexpr unsigned kCombinedRows = 8;

struct alignas(16) AttentionShared {
  float tops[kSplits][kTileRows];     ///< the largest score that a warp saw of a row
  float sums[kSplits][kTileRows];     ///< of exp(score - top)
  float weights[kSplits][kTileRows];  ///< factor of a warp's part of a row
  float scales[kSplits][kTileRows];   ///< factor of a warp's earlier sums of a row
  float sinks[kTileRows];             ///< exp(sink - top) of a row; 0 without sinks
  union {
    float exps[kSplits][kPageTokens][kTileRows + 4];  ///< of a warp's page
    float parts[kSplits][kCombinedRows][kColumns];    ///< outputs, before they are added up
  };
};

/// Floats from one row of queries in shared memory to the next, so that four neighbouring rows lie in different banks.
__host__ __device__ constexpr unsigned query_stride(unsigned head_dim) { return ((head_dim + 3) / 4 | 1) * 4; }

/// Sums over d have two parts, [0, first_part) and the rest.
__device__ inline unsigned first_part(unsigned head_dim) { return head_dim / 8 * 4; }

/// A tile of a head of `kWidth` columns, known at compile time; 0: of any number of columns. Keys and values are of
/// type `Element`.
template <unsigned kWidth, class Element>
struct AttentionTile {
  /// kChunks · kColumns columns are computed in one pass over the keys.
  static constexpr unsigned kChunks = kWidth == 0 ? 2 : (kWidth + kColumns - 1) / kColumns;

  const Element* keys;    ///< the head's keys in page 0: [head_dim][16]
  const Element* values;  ///< [16][head_dim_padded]
  const float* bias;      ///< the head's bias of distance 0; null for none
  const float* sink;      ///< the head's; null for none
  float scale;
  const uint32_t* pages;
  size_t page_elements;
  float* rows;        ///< row 0's queries, later its outputs
  size_t row_stride;  ///< floats
  unsigned width;
  unsigned width_padded;
  unsigned count;     ///< rows
  unsigned position;  ///< of row 0
  unsigned all_keys;  ///< that a row sees, where not causal
  unsigned window;
  bool causal;

  __device__ AttentionTile(const CacheLayer& cache, const PagedBatch& batch, float* q, const AttentionScores& scores,
                           const RowTile& tile, unsigned head)
      : bias(scores.bias.at_distance_0 == nullptr ? nullptr
                                                  : scores.bias.at_distance_0 + head * scores.bias.head_stride),
        sink(scores.sinks == nullptr ? nullptr : scores.sinks + head),
        scale(scores.scale),
        page_elements(cache.page_elements),
        row_stride(size_t{scores.heads} * cache.head_dim),
        width(cache.head_dim),
        width_padded(cache.head_dim_padded),
        window(scores.window),
        causal(scores.causal) {
    const size_t shared = head / (scores.heads / cache.heads);
    const auto* page0 = static_cast<const Element*>(cache.page0);
    keys = page0 + shared * cache.head_dim * kPageTokens;
    values = page0 + cache.values + shared * kPageTokens * cache.head_dim_padded;
    const PagedSequence& sequence = batch.sequences[tile.sequence];
    pages = pages_of(batch, sequence);
    rows = q + (sequence.begin + tile.row) * row_stride + head * cache.head_dim;
    count = min(kTileRows, sequence.count - tile.row);
    position = sequence.past + tile.row;
    all_keys = sequence.keys;
  }

  __device__ unsigned head_dim() const { return kWidth == 0 ? width : kWidth; }
  __device__ unsigned head_dim_padded() const { return kWidth == 0 ? width_padded : (kWidth + 15) / 16 * 16; }
  /// Keys that row `row` sees. Rows past the last see what the last row sees.
  __device__ unsigned visible(unsigned row) const { return causal ? position + min(row, count - 1) + 1 : all_keys; }
  /// The first key that row `row` sees.
  __device__ unsigned first(unsigned row) const {
    const unsigned end = visible(row);
    return end > window ? end - window : 0;
  }
  __device__ bool sees(unsigned row, unsigned key) const { return key >= first(row) && key < visible(row); }
  /// The first page of warp `split` that any row sees.
  __device__ unsigned first_page(unsigned split) const {
    const unsigned page = first(0) / kPageTokens;
    return page + (split + kSplits - page % kSplits) % kSplits;
  }
  /// Whether all rows see all keys of a page.
  __device__ bool whole(unsigned page) const {
    return (page + 1) * kPageTokens <= visible(0) && page * kPageTokens >= first(count - 1);
  }
  __device__ const Element* key_page(unsigned page) const { return keys + pages[page] * page_elements; }
  __device__ const Element* value_page(unsigned page) const { return values + pages[page] * page_elements; }
  /// The score of row `row` and key `key` from their product.
  __device__ float score_of(unsigned row, unsigned key, float product) const {
    const float score = product * scale;
    if (bias == nullptr) return score;
    return score + bias[static_cast<int>(key) - static_cast<int>(position + min(row, count - 1))];
  }
};

/// The value subtracted in exponents: `top`, or 0 where no key has been seen (or all scores are -inf), because -inf -
/// -inf is NaN.
__device__ inline float finite_top(float top) { return top == -INFINITY ? 0.0f : top; }

/// Fills weights and sinks from tops; `sink` as in AttentionTile. Between two barriers.
__device__ inline void weigh_parts(AttentionShared& shared, const float* sink) {
  if (threadIdx.x >= kSplits * kTileRows) return;
  const unsigned row = threadIdx.x % kTileRows, split = threadIdx.x / kTileRows;
  float top = sink == nullptr ? -INFINITY : *sink;
  for (unsigned i = 0; i < kSplits; ++i) top = fmaxf(top, shared.tops[i][row]);
  shared.weights[split][row] = expf(shared.tops[split][row] - finite_top(top));
  if (split == 0) shared.sinks[row] = sink == nullptr ? 0.0f : expf(*sink - finite_top(top));
}

/// Row `row`'s output of a column, whose parts lie `kCombinedRows · kColumns` floats apart.
__device__ inline float combined(const AttentionShared& shared, unsigned row, const float* parts) {
  float sum = 0, total = 0;
  for (unsigned i = 0; i < kSplits; ++i) {
    const float weight = shared.weights[i][row];
    sum = fmaf(weight, shared.sums[i][row], sum);
    total = fmaf(weight, parts[i * kCombinedRows * kColumns], total);
  }
  return total / (sum + shared.sinks[row]);
}

}  // namespace sida::cuda
