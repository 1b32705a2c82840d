#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/cuda/attention.h"
#include "ops/cuda/rows.h"
#include "spec/spec.h"

namespace sida::cuda {

/// The heads of a pass before attention. All pointers are to device memory.
struct Heads {
  float* queries;       ///< (tokens, heads · head_dim)
  const float* keys;    ///< (tokens, the cache's heads · head_dim)
  const float* values;  ///< the same
  uint32_t heads;
  QkNorm norm;
  const float *query_norm, *key_norm;  ///< (head_dim), or of QkNorm::kRow (heads · head_dim)
  float epsilon;
  RotaryTable rotary;  ///< half 0: none
};

/// Norms and rotates queries, in place, and keys, and writes keys and values as the batch's tokens into the cache. One
/// launch, with the bits of norm(), rotate(), write_keys() and write_values(). `tile_rows`: the most rows of a tile.
void prepare_heads(const CacheLayer& cache, const PagedBatch& batch, uint32_t tile_rows, const Heads& heads,
                   cudaStream_t stream);

}  // namespace sida::cuda
