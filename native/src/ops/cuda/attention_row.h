#pragma once

#include "ops/cuda/attention_parts.h"

// Attention of one row by itself, as in decoding. Memory bandwidth is the limit, so all lanes read.
namespace sida::cuda {

struct RowState {
  float top = -INFINITY;
  float sum = 0;
};

/// Reads a lane's two columns of every kColumns from `column` on, of the values at `from`. Lanes past the last column
/// read any numbers, which are not stored.
template <class Tile, class Element>
__device__ void read_values(const Tile& tile, const Element* from, unsigned column, float2 (&value)[Tile::kChunks]) {
  const unsigned lane = threadIdx.x % kWarp;
#pragma unroll
  for (unsigned c = 0; c < Tile::kChunks; ++c) {
    const unsigned at = min(column + c * kColumns + 2 * lane, tile.head_dim_padded() - 2);
    value[c] = load2(from + at);
  }
}

/// One page of a warp. For the scores a lane has one key and one of the two parts of d; for the outputs it has two
/// columns of every kColumns from `column` on. `kWhole`: the row sees all keys of the page.
template <bool kWhole, class Tile>
__device__ void attend_row_page(const Tile& tile, const float* query, unsigned page, unsigned column, RowState& state,
                                float2 (&out)[Tile::kChunks]) {
  const unsigned lane = threadIdx.x % kWarp, token = lane % kPageTokens;
  const unsigned key = page * kPageTokens + token, visible = tile.visible(0);
  const unsigned tokens = kWhole ? kPageTokens : visible - page * kPageTokens;
  const auto* from = tile.value_page(page);
  // Loaded before the keys, so that the warp waits only once for both.
  float2 value[kPageTokens][Tile::kChunks];
#pragma unroll
  for (unsigned i = 0; i < kPageTokens; ++i) {
    if (kWhole || i < tokens) read_values(tile, from + i * tile.head_dim_padded(), column, value[i]);
  }
  const unsigned part = first_part(tile.head_dim());
  const unsigned begin = lane < kPageTokens ? 0 : part, count = lane < kPageTokens ? part : tile.head_dim() - part;
  const auto* keys = tile.key_page(page) + begin * kPageTokens + token;
  float score = 0;
#pragma unroll 32
  for (unsigned i = 0; i < count; ++i) score = fmaf(query[begin + i], load1(keys + i * kPageTokens), score);
  score += __shfl_xor_sync(kAllLanes, score, kPageTokens);

  score = kWhole || tile.sees(0, key) ? tile.score_of(0, key, score) : -INFINITY;
  const float top = fmaxf(state.top, warp_max<kPageTokens>(score)), base = finite_top(top);
  const float scale = expf(state.top - base), weight = expf(score - base);
  state.top = top;
  state.sum = fmaf(state.sum, scale, warp_sum<kPageTokens>(weight));
#pragma unroll
  for (unsigned c = 0; c < Tile::kChunks; ++c) out[c] = {out[c].x * scale, out[c].y * scale};
#pragma unroll
  for (unsigned i = 0; i < kPageTokens; ++i) {
    const float value_weight = __shfl_sync(kAllLanes, weight, i);
    // Skipped instead of weighted with 0: values that the row does not see may be NaN.
    if (!kWhole && !tile.sees(0, page * kPageTokens + i)) continue;
#pragma unroll
    for (unsigned c = 0; c < Tile::kChunks; ++c) {
      out[c] = {fmaf(value_weight, value[i][c].x, out[c].x), fmaf(value_weight, value[i][c].y, out[c].y)};
    }
  }
}

/// Columns [column, column + Tile::kChunks · kColumns) of the output, by the whole block.
template <class Tile>
__device__ void attend_row(const Tile& tile, const float* query, unsigned column, AttentionShared& shared) {
  const unsigned lane = threadIdx.x % kWarp, split = threadIdx.x / kWarp;
  const unsigned visible = tile.visible(0);
  RowState state;
  float2 out[Tile::kChunks] = {};
  for (unsigned page = tile.first_page(split); page * kPageTokens < visible; page += kSplits) {
    if (tile.whole(page)) {
      attend_row_page<true>(tile, query, page, column, state, out);
    } else {
      attend_row_page<false>(tile, query, page, column, state, out);
    }
  }
  if (lane == 0) {
    shared.tops[split][0] = state.top;
    shared.sums[split][0] = state.sum;
  }
  __syncthreads();
  weigh_parts(shared, tile.sink);
#pragma unroll
  for (unsigned c = 0; c < Tile::kChunks; ++c) {
    reinterpret_cast<float2*>(shared.parts[split][0])[lane] = out[c];
    __syncthreads();
    const unsigned at = column + c * kColumns + threadIdx.x;
    if (threadIdx.x < kColumns && at < tile.head_dim()) {
      tile.rows[at] = combined(shared, 0, &shared.parts[0][0][threadIdx.x]);
    }
    __syncthreads();
  }
}

}  // namespace sida::cuda
