#include "ops/cuda/kv_elements.cuh"
#include "ops/cuda/latent_attention.h"
#include "ops/cuda/warp.h"
#include "spec/kv_page.h"

// Latent attention, one block for each row and head. Warp p % kSplits takes page p and runs an online softmax over its
// pages in order; the warps' results are then added in the order of the warps.
namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kSplits = 8;
constexpr unsigned kLaneColumns = kMaxLatentRow / kWarp;

template <class Element>
__global__ void put_rows(LatentLayer cache, PagedBatch batch, LatentRows rows) {
  const RowTile& tile = batch.tiles[blockIdx.x];
  const PagedSequence& sequence = batch.sequences[tile.sequence];
  const unsigned width = rows.rank + rows.rotary, count = min(kTileRows, sequence.count - tile.row);
  for (unsigned i = threadIdx.x; i < count * width; i += kThreads) {
    const unsigned row = tile.row + i / width, column = i % width, position = sequence.past + row;
    const size_t token = sequence.begin + row;
    const uint32_t page = pages_of(batch, sequence)[position / kPageTokens];
    store1(static_cast<Element*>(cache.page0) + page * cache.page_elements + position % kPageTokens * cache.stride +
               column,
           column < rows.rank ? rows.rank_part[token * rows.rank + column]
                              : rows.rotary_part[token * rows.rotary + column - rows.rank]);
  }
}

__global__ void copy_rotated(const float* q, uint32_t head_dim, LatentQueries to, uint32_t stride) {
  const size_t head = size_t{blockIdx.x} * to.heads + blockIdx.y;
  const float* from = q + ((size_t{to.first_row} + blockIdx.x) * to.heads + blockIdx.y + 1) * head_dim - to.rotary;
  for (unsigned i = threadIdx.x; i < to.rotary; i += kThreads) to.queries[head * stride + to.rank + i] = from[i];
}

struct Shared {
  float query[kMaxLatentRow];
  float tops[kSplits];
  float sums[kSplits];
};

template <class Element>
__global__ void __launch_bounds__(kSplits* kWarp)
    attend_rows(LatentLayer cache, PagedBatch batch, uint32_t first_tile, LatentQueries task) {
  const RowTile& tile = batch.tiles[first_tile + blockIdx.x];
  const PagedSequence& sequence = batch.sequences[tile.sequence];
  if (tile.row + blockIdx.z >= sequence.count) return;
  __shared__ Shared shared;
  float* parts = reinterpret_cast<float*>(dynamic_shared());  // (kSplits, rank)
  const unsigned lane = threadIdx.x % kWarp, split = threadIdx.x / kWarp, width = task.rank + task.rotary;
  const size_t row = sequence.begin + tile.row + blockIdx.z - task.first_row;
  const size_t at = (row * task.heads + blockIdx.y) * cache.stride;
  for (unsigned i = threadIdx.x; i < width; i += kSplits * kWarp) shared.query[i] = task.queries[at + i];
  __syncthreads();
  const unsigned keys = sequence.past + tile.row + blockIdx.z + 1;
  float top = -INFINITY, sum = 0, out[kLaneColumns] = {};
  for (unsigned page = split; page * kPageTokens < keys; page += kSplits) {
    const uint32_t place = pages_of(batch, sequence)[page];
    const Element* rows = static_cast<const Element*>(cache.page0) + place * cache.page_elements;
    const unsigned count = min(unsigned{kPageTokens}, keys - page * unsigned{kPageTokens});
    for (unsigned key = 0; key < count; ++key, rows += cache.stride) {
      float score = 0;
      for (unsigned i = lane; i < width; i += kWarp) score = fmaf(shared.query[i], load1(rows + i), score);
      score = warp_sum(score) * task.scale;
      // Written without fmaxf, so that a NaN reaches the output.
      const float next = score <= top ? top : score;
      const float scale = expf(top - next), weight = expf(score - next);
      top = next;
      sum = fmaf(sum, scale, weight);
#pragma unroll
      for (unsigned c = 0; c < kLaneColumns; ++c) {
        const unsigned column = lane + c * kWarp;
        if (column < task.rank) out[c] = fmaf(weight, load1(rows + column), out[c] * scale);
      }
    }
  }
  if (lane == 0) {
    shared.tops[split] = top;
    shared.sums[split] = sum;
  }
#pragma unroll
  for (unsigned c = 0; c < kLaneColumns; ++c) {
    const unsigned column = lane + c * kWarp;
    if (column < task.rank) parts[split * task.rank + column] = out[c];
  }
  __syncthreads();
  float most = -INFINITY;
  for (unsigned i = 0; i < kSplits; ++i) most = shared.tops[i] <= most ? most : shared.tops[i];
  for (unsigned column = threadIdx.x; column < task.rank; column += kSplits * kWarp) {
    float total = 0, value = 0;
    for (unsigned i = 0; i < kSplits; ++i) {
      // A warp without keys has a top of -inf and a sum of 0.
      const float weight = shared.sums[i] == 0 ? 0.0f : expf(shared.tops[i] - most);
      total = fmaf(weight, shared.sums[i], total);
      value = fmaf(weight, parts[i * task.rank + column], value);
    }
    task.outputs[at + column] = value / total;
  }
}

}  // namespace

void write_latent(const LatentLayer& cache, const PagedBatch& batch, const LatentRows& rows, cudaStream_t stream) {
  if (batch.tile_count == 0) return;
  const auto kernel = cache.format == KvFormat::kBf16 ? put_rows<uint16_t> : put_rows<float>;
  launch(kernel, {static_cast<unsigned>(batch.tile_count), kThreads}, stream, cache, batch, rows);
}

void take_rotated(const float* q, uint32_t head_dim, const LatentQueries& to, uint32_t stride, uint32_t rows,
                  cudaStream_t stream) {
  if (rows == 0) return;
  launch(copy_rotated, {{rows, to.heads}, kThreads}, stream, q, head_dim, to, stride);
}

void latent_attention(const LatentLayer& cache, const PagedBatch& batch, uint32_t first_tile, uint32_t tiles,
                      const LatentQueries& queries, cudaStream_t stream) {
  if (tiles == 0) return;
  const LaunchShape shape{{tiles, queries.heads, kTileRows}, kSplits * kWarp, kSplits * queries.rank * sizeof(float)};
  const auto kernel = cache.format == KvFormat::kBf16 ? attend_rows<uint16_t> : attend_rows<float>;
  launch(kernel, shape, stream, cache, batch, first_tile, queries);
}

}  // namespace sida::cuda
