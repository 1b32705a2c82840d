#include "ops/cuda/attention.h"
#include "ops/cuda/kv_elements.cuh"
#include "ops/cuda/warp.h"
#include "spec/kv_page.h"

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
    pages = pages_of(batch, sequence);
    count = min(kTileRows, sequence.count - tile.row);
    position = sequence.past + tile.row;
  }
};

/// The page of `cache` that holds row `row` of the tile.
template <class Element>
__device__ Element* page_of(const CacheLayer& cache, const TileRows& rows, unsigned row) {
  const size_t page = rows.pages[(rows.position + row) / kPageTokens];
  return static_cast<Element*>(cache.page0) + page * cache.page_elements;
}

/// Transposes in shared memory, because rows are contiguous in columns and pages of keys in tokens.
template <class Element>
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
    store1(page_of<Element>(cache, rows, row) + column * kPageTokens + (rows.position + row) % kPageTokens,
           shared[row][i / rows.count]);
  }
}

/// A thread takes `kUnit` columns: 4 where the head's width is a multiple of 4, else 1.
template <class Element, unsigned kUnit>
__global__ void put_values(CacheLayer cache, PagedBatch batch, const float* from) {
  const size_t width = size_t{cache.heads} * cache.head_dim;
  const TileRows rows(batch, batch.tiles[blockIdx.x], from, width);
  const unsigned column = (blockIdx.y * kThreads + threadIdx.x) * kUnit;
  if (column >= width) return;
  const size_t line = size_t{column} / cache.head_dim * kPageTokens;
  for (unsigned row = 0; row < rows.count; ++row) {
    const size_t token = (rows.position + row) % kPageTokens;
    Element* to = page_of<Element>(cache, rows, row) + cache.values + (line + token) * cache.head_dim_padded +
                  column % cache.head_dim;
    const float* of = rows.row0 + row * width + column;
    if constexpr (kUnit == 4) {
      store4(to, load4(of));
    } else {
      store1(to, *of);
    }
  }
}

}  // namespace

void write_keys(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  const size_t width = size_t{cache.heads} * cache.head_dim;
  const auto kernel = cache.format == KvFormat::kBf16 ? put_keys<uint16_t> : put_keys<float>;
  launch(kernel, {{static_cast<unsigned>(batch.tile_count), blocks_of(width, kColumns)}, kThreads}, stream, cache,
         batch, rows);
}

void write_values(const CacheLayer& cache, const PagedBatch& batch, const float* rows, cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  const bool whole = cache.head_dim % 4 == 0;
  const size_t units = size_t{cache.heads} * cache.head_dim / (whole ? 4 : 1);
  const bool narrow = cache.format == KvFormat::kBf16;
  const auto kernel = whole ? (narrow ? put_values<uint16_t, 4> : put_values<float, 4>)
                            : (narrow ? put_values<uint16_t, 1> : put_values<float, 1>);
  launch(kernel, {{static_cast<unsigned>(batch.tile_count), blocks_of(units, kThreads)}, kThreads}, stream, cache,
         batch, rows);
}

}  // namespace sida::cuda
