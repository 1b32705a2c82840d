#include <string>

#include "core/error.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/attention_row.h"
#include "ops/cuda/attention_tile.h"

namespace sida::cuda {
namespace {

/// Of Switch-base.
constexpr unsigned kUsualWidth = 64;

/// A block a tile and head: blocks of one head follow each other, whose keys are then in the second cache.
template <unsigned kWidth>
__global__ void __launch_bounds__(kAttentionThreads, kWidth == 0 ? 1 : 2)
    attend(CacheLayer cache, PagedBatch batch, float* q, AttentionBias bias, bool causal) {
  auto& shared = *reinterpret_cast<AttentionShared*>(dynamic_shared());
  auto* queries = reinterpret_cast<float*>(&shared + 1);
  using Tile = AttentionTile<kWidth>;
  const Tile tile(cache, batch, q, bias, causal, batch.tiles[blockIdx.x], blockIdx.y);
  const bool one = tile.count == 1;
  const unsigned stride = query_stride(tile.d_kv());
  for (unsigned i = threadIdx.x; i < (one ? 1 : kTileRows) * tile.d_kv(); i += kAttentionThreads) {
    const unsigned row = i / tile.d_kv(), d = i % tile.d_kv();
    queries[row * stride + d] = row < tile.count ? tile.rows[row * tile.row_stride + d] : 0.0f;
  }
  __syncthreads();
  for (unsigned column = 0; column < tile.d_kv(); column += Tile::kChunks * kColumns) {
    if (one) {
      attend_row(tile, queries, column, shared);
    } else {
      attend_tile(tile, queries, column, shared);
    }
  }
}

}  // namespace

void attention(const CacheLayer& cache, const PagedBatch& batch, float* q, const AttentionBias& bias,
               bool causal, cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  if (cache.d_kv > kMostHeadWidth) {
    throw Error("cannot_run",
                "d_kv is " + std::to_string(cache.d_kv) + ", the cuda device takes heads of at most " +
                    std::to_string(kMostHeadWidth),
                {{"found", static_cast<double>(cache.d_kv)}, {"most", static_cast<double>(kMostHeadWidth)}});
  }
  const LaunchShape shape{dim3(static_cast<unsigned>(batch.tile_count), cache.heads), dim3(kAttentionThreads),
                          sizeof(AttentionShared) + kTileRows * query_stride(cache.d_kv) * sizeof(float)};
  launch(cache.d_kv == kUsualWidth ? attend<kUsualWidth> : attend<0>, shape, stream, cache, batch, q, bias,
         causal);
}

}  // namespace sida::cuda
