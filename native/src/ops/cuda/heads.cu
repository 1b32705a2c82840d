#include <algorithm>

#include "ops/cuda/heads.h"
#include "ops/cuda/kv_elements.cuh"
#include "ops/cuda/norm_row.cuh"
#include "ops/cuda/rotate_pair.cuh"
#include "spec/kv_page.h"

// What happens to queries, keys and values of few tokens between their projections and attention. Keys of many tokens
// are transposed on their way into the cache, by kernels of their own (kv_rows.cu).
namespace sida::cuda {
namespace {

constexpr unsigned kWarps = 16;

enum Part : unsigned { kQueries, kKeys, kValues, kParts };

/// The heads of one token in one part.
struct HeadsOfToken {
  const float* x;  ///< (heads, head_dim)
  uint32_t heads;
  const float* norm;  ///< weights
  bool normed, rotated;

  __device__ HeadsOfToken(const Heads& of, const CacheLayer& cache, unsigned part, size_t token)
      : x(part == kQueries ? of.queries
          : part == kKeys  ? of.keys
                           : of.values),
        heads(part == kQueries ? of.heads : cache.heads),
        norm(part == kQueries ? of.query_norm : of.key_norm),
        normed(part != kValues && of.norm != QkNorm::kNone),
        rotated(part != kValues && of.rotary.half > 0) {
    x += token * heads * cache.head_dim;
  }
};

/// One warp: the columns of a head, in shared memory, rotated.
__device__ void rotate_head(float* head, const RotaryTable& table, size_t token) {
  for (size_t column = threadIdx.x % kWarp; column < table.half; column += kWarp) {
    float* left = head + (table.adjacent ? 2 * column : column);
    rotate_pair(table, token, column, left, left + (table.adjacent ? 1 : table.half));
  }
}

/// Block (x, y, z): row z of tile x, part y. Each warp takes heads. Dynamic shared memory: a head for each warp.
template <class Element>
__global__ void __launch_bounds__(kWarps* kWarp) prepare(CacheLayer cache, PagedBatch batch, Heads of) {
  const RowTile tile = batch.tiles[blockIdx.x];
  const PagedSequence& sequence = batch.sequences[tile.sequence];
  const uint32_t row = tile.row + blockIdx.z;
  if (row >= sequence.count) return;
  const unsigned lane = threadIdx.x % kWarp, part = blockIdx.y;
  const uint32_t dim = cache.head_dim;
  const size_t token = sequence.begin + row, position = sequence.past + row, in_page = position % kPageTokens;
  const HeadsOfToken token_heads(of, cache, part, token);
  auto* page = static_cast<Element*>(cache.page0) +
               size_t{pages_of(batch, sequence)[position / kPageTokens]} * cache.page_elements;
  auto* line = reinterpret_cast<float*>(dynamic_shared()) + threadIdx.x / kWarp * dim;
  const bool by_row = of.norm == QkNorm::kRow;
  float scale = 1;
  if (token_heads.normed && by_row) {
    scale = rms_scale_of(token_heads.x, size_t{token_heads.heads} * dim, of.epsilon);
    // Queries are overwritten, and each warp reads all of them.
    __syncthreads();
  }
  for (uint32_t head = threadIdx.x / kWarp; head < token_heads.heads; head += blockDim.x / kWarp) {
    const float* x = token_heads.x + size_t{head} * dim;
    if (token_heads.normed && !by_row) scale = rms_scale_of(x, dim, of.epsilon);
    for (uint32_t i = lane; i < dim; i += kWarp) {
      const float value = token_heads.normed ? x[i] * scale : x[i];
      line[i] = token_heads.normed ? value * token_heads.norm[(by_row ? size_t{head} * dim : 0) + i] : value;
    }
    __syncwarp();
    if (token_heads.rotated) rotate_head(line, of.rotary, token);
    __syncwarp();
    for (uint32_t i = lane; i < dim; i += kWarp) {
      if (part == kQueries) of.queries[(token * of.heads + head) * dim + i] = line[i];
      if (part == kKeys) store1(page + (size_t{head} * dim + i) * kPageTokens + in_page, line[i]);
      if (part == kValues) {
        store1(page + cache.values + (size_t{head} * kPageTokens + in_page) * cache.head_dim_padded + i, line[i]);
      }
    }
    __syncwarp();
  }
}

}  // namespace

void prepare_heads(const CacheLayer& cache, const PagedBatch& batch, uint32_t tile_rows, const Heads& heads,
                   cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  const unsigned warps = std::min(kWarps, std::max(heads.heads, cache.heads));
  const LaunchShape shape{{static_cast<unsigned>(batch.tile_count), kParts, tile_rows},
                          warps * kWarp,
                          warps * cache.head_dim * sizeof(float)};
  launch(cache.format == KvFormat::kBf16 ? prepare<uint16_t> : prepare<float>, shape, stream, cache, batch, heads);
}

}  // namespace sida::cuda
