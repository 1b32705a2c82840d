#include "ops/cuda/attention.h"
#include "ops/cuda/warp.h"
#include "ops/kv_page.h"

// Writes rows of keys and values into the pages of a cache. A block takes some columns of one tile.
namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kColumns = 64;

struct TileRows {
  const float* row0;      ///< row 0 of the tile
  const uint32_t* pages;  ///< the sequence's
  uint32_t count;
  uint32_t position;  ///< of row 0 in the sequence

  __device__ TileRows(const PagedBatch& batch, const RowTile& tile, const float* rows, size_t width) {
    const PagedSequence& sequence = batch.sequences[tile.sequence];
    row0 = rows + (sequence.begin + tile.row) * width;
    pages = batch.page_table + sequence.pages;
    count = min(kTileRows, sequence.count - tile.row);
    position = sequence.past + tile.row;
  }
};

/// The page of `cache` that holds row `row` of the tile.
__device__ float* page_of(const CacheLayer& cache, const TileRows& rows, unsigned row) {
  return cache.page0 + rows.pages[(rows.position + row) / kPageTokens] * cache.page_floats;
}

/// Transposes in shared memory, because rows are contiguous in columns and pages of keys in tokens.
__global__ void put_keys(CacheLayer cache, PagedBatch batch, const float* from) {
  __shared__ float shared[kTileRows][kColumns + 1];
  const size_t width = size_t{cache.heads} * cache.head_dim;
  const TileRows rows(batch, batch.tiles[blockIdx.x], from, width);
  const size_t begin = size_t{blockIdx.y} * kColumns;
  for (unsigned i = threadIdx.x; i < rows.count * kColumns; i += kThreads) {
    const size_t column = begin + i % kColumns;
    if (column < width) shared[i / kColumns][i % kColumns] = rows.row0[i / kColumns * width + column];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < rows.count * kColumns; i += kThreads) {
    const unsigned row = i % rows.count;
    const size_t column = begin + i / rows.count;
    if (column >= width) break;
    page_of(cache, rows, row)[column * kPageTokens + (rows.position + row) % kPageTokens] =
        shared[row][i / rows.count];
  }
}

/// `Unit` is float4 where the head's width is a multiple of 4, else float.
template <class Unit>
__global__ void put_values(CacheLayer cache, PagedBatch batch, const float* from) {
  constexpr unsigned kFloats = sizeof(Unit) / sizeof(float);
  const size_t width = size_t{cache.heads} * cache.head_dim;
  const TileRows rows(batch, batch.tiles[blockIdx.x], from, width);
  const unsigned column = (blockIdx.y * kThreads + threadIdx.x) * kFloats;
  if (column >= width) return;
  const size_t line = size_t{column} / cache.head_dim * kPageTokens;
  for (unsigned row = 0; row < rows.count; ++row) {
    const size_t token = (rows.position + row) % kPageTokens;
    float* to =
        page_of(cache, rows, row) + cache.values + (line + token) * cache.head_dim_padded + column % cache.head_dim;
    *reinterpret_cast<Unit*>(to) = *reinterpret_cast<const Unit*>(rows.row0 + row * width + column);
  }
}

}  // namespace

void write_keys(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  const size_t width = size_t{cache.heads} * cache.head_dim;
  launch(put_keys, {{static_cast<unsigned>(batch.tile_count), blocks_of(width, kColumns)}, kThreads}, stream,
         cache, batch, rows);
}

void write_values(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  const bool whole = cache.head_dim % 4 == 0;
  const size_t units = size_t{cache.heads} * cache.head_dim / (whole ? 4 : 1);
  launch(whole ? put_values<float4> : put_values<float>,
         {{static_cast<unsigned>(batch.tile_count), blocks_of(units, kThreads)}, kThreads}, stream, cache,
         batch, rows);
}

}  // namespace sida::cuda
