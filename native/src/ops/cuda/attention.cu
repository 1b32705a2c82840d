#include <string>

#include "core/error.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/attention_row.h"
#include "ops/cuda/attention_tile.h"

namespace sida::cuda {
namespace {

/// One block for each tile and head. Blocks of one head follow each other, so that they find its keys in the L2 cache.
template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kAttentionThreads, kWidth == 64 ? 2 : 1)
    attend(CacheLayer cache, PagedBatch batch, float* q, AttentionScores scores) {
  auto& shared = *reinterpret_cast<AttentionShared*>(dynamic_shared());
  auto* queries = reinterpret_cast<float*>(&shared + 1);
  using Tile = AttentionTile<kWidth, Element>;
  const Tile tile(cache, batch, q, scores, batch.tiles[blockIdx.x], blockIdx.y);
  const bool one = tile.count == 1;
  const unsigned stride = query_stride(tile.head_dim());
  for (unsigned i = threadIdx.x; i < (one ? 1 : kTileRows) * tile.head_dim(); i += kAttentionThreads) {
    const unsigned row = i / tile.head_dim(), d = i % tile.head_dim();
    queries[row * stride + d] = row < tile.count ? tile.rows[row * tile.row_stride + d] : 0.0f;
  }
  __syncthreads();
  for (unsigned column = 0; column < tile.head_dim(); column += Tile::kChunks * kColumns) {
    if (one) {
      attend_row(tile, queries, column, shared);
    } else {
      attend_tile(tile, queries, column, shared);
    }
  }
}

/// The usual widths have kernels of their own.
template <class Element>
auto kernel_of(uint32_t head_dim) {
  return head_dim == 64 ? attend<64, Element> : head_dim == 128 ? attend<128, Element> : attend<0, Element>;
}

}  // namespace

void attention(const CacheLayer& cache, const PagedBatch& batch, float* q, const AttentionScores& scores,
               cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  if (cache.head_dim > kMaxHeadDim) {
    throw Error("cannot_run",
                "heads have " + std::to_string(cache.head_dim) + " columns, the cuda device takes at most " +
                    std::to_string(kMaxHeadDim),
                {{"found", static_cast<double>(cache.head_dim)}, {"most", static_cast<double>(kMaxHeadDim)}});
  }
  const size_t shared = sizeof(AttentionShared) + kTileRows * query_stride(cache.head_dim) * sizeof(float);
  const LaunchShape shape{dim3(static_cast<unsigned>(batch.tile_count), scores.heads), dim3(kAttentionThreads), shared};
  const bool narrow = cache.format == KvFormat::kBf16;
  const auto kernel = narrow ? kernel_of<uint16_t>(cache.head_dim) : kernel_of<float>(cache.head_dim);
  // Wide heads take more shared memory than a kernel has by default. Errors show at the launch.
  if (shared > size_t{48} << 10) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  }
  launch(kernel, shape, stream, cache, batch, q, scores);
}

}  // namespace sida::cuda
