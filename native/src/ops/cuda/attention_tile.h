#pragma once

#include "ops/cuda/attention_parts.h"

// Attention of a tile of rows: each page is read once for all of them.
namespace sida::cuda {

/// The rows, and the columns of every kColumns, of a warp's outputs that one lane holds.
inline constexpr unsigned kLaneRows = 8;
inline constexpr unsigned kLaneColumns = 4;

/// Scores of two rows with four keys.
struct Scores {
  float row[2][4] = {};

  __device__ void add(float query0, float query1, float4 keys) {
    const float key[4] = {keys.x, keys.y, keys.z, keys.w};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      row[0][i] = fmaf(query0, key[i], row[0][i]);
      row[1][i] = fmaf(query1, key[i], row[1][i]);
    }
  }

  /// Adds the products of d in [begin, end), `begin` a multiple of 4.
  template <class Element>
  __device__ void add(const float* query0, const float* query1, const Element* keys, unsigned begin, unsigned end) {
    unsigned d = begin;
#pragma unroll 2
    for (; d + 4 <= end; d += 4) {
      const float4 a = load4(query0 + d), b = load4(query1 + d);
      const Element* at = keys + d * kPageTokens;
      add(a.x, b.x, load4(at));
      add(a.y, b.y, load4(at + kPageTokens));
      add(a.z, b.z, load4(at + 2 * kPageTokens));
      add(a.w, b.w, load4(at + 3 * kPageTokens));
    }
    for (; d < end; ++d) add(query0[d], query1[d], load4(keys + d * kPageTokens));
  }
};

/// Largest scores and sums of a lane's two rows.
struct TileState {
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
};

template <unsigned kChunks>
using TileOutputs = float[kChunks][kLaneRows][kLaneColumns];

/// Computes the scores of a page. Writes their exponentials to `exps` and the factors of earlier sums to `scales`. Four
/// neighbouring lanes share rows lane / 4 and lane / 4 + 8 and have four keys each.
template <bool kWhole, class Tile>
__device__ void weigh_page(const Tile& tile, const float* queries, unsigned page, TileState& state,
                           float (&exps)[kPageTokens][kTileRows + 4], float (&scales)[kTileRows]) {
  const unsigned lane = threadIdx.x % kWarp, token = lane % 4 * 4;
  const unsigned stride = query_stride(tile.head_dim()), part = first_part(tile.head_dim());
  const float* query0 = queries + lane / 4 * stride;
  const float* query1 = query0 + 8 * stride;
  const auto* keys = tile.key_page(page) + token;
  Scores scores, rest;
  scores.add(query0, query1, keys, 0, part);
  rest.add(query0, query1, keys, part, tile.head_dim());
#pragma unroll
  for (unsigned r = 0; r < 2; ++r) {
    const unsigned row = lane / 4 + 8 * r;
    float(&score)[4] = scores.row[r];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned key = page * kPageTokens + token + i;
      score[i] = kWhole || tile.sees(row, key) ? tile.score_of(row, key, score[i] + rest.row[r][i]) : -INFINITY;
    }
    const float here = fmaxf(fmaxf(score[0], score[1]), fmaxf(score[2], score[3]));
    const float top = fmaxf(state.top[r], warp_max<4>(here)), base = finite_top(top);
    const float scale = expf(state.top[r] - base);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      score[i] = expf(score[i] - base);
      exps[token + i][row] = score[i];
    }
    if (lane % 4 == 0) scales[row] = scale;
    state.top[r] = top;
    state.sum[r] = fmaf(state.sum[r], scale, warp_sum<4>(score[0] + score[1] + (score[2] + score[3])));
  }
}

/// Adds a page's weighted values to `out`. A lane has 8 rows from lane / 16 · 8 on, and four columns of every kColumns
/// from `column` on.
template <bool kWhole, class Tile>
__device__ void add_values(const Tile& tile, unsigned page, unsigned column,
                           const float (&exps)[kPageTokens][kTileRows + 4], const float (&scales)[kTileRows],
                           TileOutputs<Tile::kChunks>& out) {
  const unsigned lane = threadIdx.x % kWarp, row = lane / 16 * kLaneRows;
#pragma unroll
  for (unsigned r = 0; r < kLaneRows; ++r) {
    const float scale = scales[row + r];
    for (unsigned c = 0; c < Tile::kChunks; ++c) {
      for (float& value : out[c][r]) value *= scale;
    }
  }
  const auto* values = tile.value_page(page);
  const unsigned first_key = page * kPageTokens;
  const unsigned tokens = kWhole ? kPageTokens : min(unsigned{kPageTokens}, tile.visible(tile.count - 1) - first_key);
#pragma unroll(kWhole ? 4 : 1)
  for (unsigned token = 0; token < tokens; ++token) {
    const float4 low = load4(&exps[token][row]), high = load4(&exps[token][row + 4]);
    const float weight[kLaneRows] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (unsigned c = 0; c < Tile::kChunks; ++c) {
      // Lanes past the last column read any numbers, which are not stored.
      const unsigned at = min(column + c * kColumns + lane % 16 * kLaneColumns, tile.head_dim_padded() - kLaneColumns);
      const float4 value = load4(values + token * tile.head_dim_padded() + at);
#pragma unroll
      for (unsigned r = 0; r < kLaneRows; ++r) {
        // Skipped instead of weighted with 0: values that a row does not see may be NaN.
        if (!kWhole && !tile.sees(row + r, first_key + token)) continue;
        out[c][r][0] = fmaf(weight[r], value.x, out[c][r][0]);
        out[c][r][1] = fmaf(weight[r], value.y, out[c][r][1]);
        out[c][r][2] = fmaf(weight[r], value.z, out[c][r][2]);
        out[c][r][3] = fmaf(weight[r], value.w, out[c][r][3]);
      }
    }
  }
}

template <bool kWhole, class Tile>
__device__ void attend_tile_page(const Tile& tile, const float* queries, unsigned page, unsigned column,
                                 AttentionShared& shared, TileState& state, TileOutputs<Tile::kChunks>& out) {
  const unsigned split = threadIdx.x / kWarp;
  weigh_page<kWhole>(tile, queries, page, state, shared.exps[split], shared.scales[split]);
  __syncwarp();
  add_values<kWhole>(tile, page, column, shared.exps[split], shared.scales[split], out);
  __syncwarp();
}

/// Columns [column, column + Tile::kChunks · kColumns) of the outputs, by the whole block.
template <class Tile>
__device__ void attend_tile(const Tile& tile, const float* queries, unsigned column, AttentionShared& shared) {
  const unsigned lane = threadIdx.x % kWarp, split = threadIdx.x / kWarp;
  const unsigned most = tile.visible(tile.count - 1);
  TileState state;
  TileOutputs<Tile::kChunks> out = {};
  for (unsigned page = tile.first_page(split); page * kPageTokens < most; page += kSplits) {
    if (tile.whole(page)) {
      attend_tile_page<true>(tile, queries, page, column, shared, state, out);
    } else {
      attend_tile_page<false>(tile, queries, page, column, shared, state, out);
    }
  }
  if (lane % 4 == 0) {
    for (unsigned r = 0; r < 2; ++r) {
      shared.tops[split][lane / 4 + 8 * r] = state.top[r];
      shared.sums[split][lane / 4 + 8 * r] = state.sum[r];
    }
  }
  __syncthreads();
  weigh_parts(shared, tile.sink);
  // Half of each lane's rows at a time, because `parts` reuses the memory of the exponentials.
  constexpr unsigned kHalf = kLaneRows / 2;
#pragma unroll
  for (unsigned c = 0; c < Tile::kChunks; ++c) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
#pragma unroll
      for (unsigned r = 0; r < kHalf; ++r) {
        const float(&value)[kLaneColumns] = out[c][half * kHalf + r];
        auto* to = reinterpret_cast<float4*>(shared.parts[split][lane / 16 * kHalf + r]) + lane % 16;
        *to = {value[0], value[1], value[2], value[3]};
      }
      __syncthreads();
      for (unsigned i = threadIdx.x; i < kCombinedRows * kColumns; i += kAttentionThreads) {
        const unsigned part = i / kColumns, at = column + c * kColumns + i % kColumns;
        const unsigned row = part / kHalf * kLaneRows + half * kHalf + part % kHalf;
        if (row >= tile.count || at >= tile.head_dim()) continue;
        tile.rows[row * tile.row_stride + at] = combined(shared, row, &shared.parts[0][part][i % kColumns]);
      }
      __syncthreads();
    }
  }
}

}  // namespace sida::cuda
