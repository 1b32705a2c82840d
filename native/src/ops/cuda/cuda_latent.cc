// Latent attention of CudaOps. The projections from latent rows are applied to queries and outputs, some tiles at a
// time, so that the cached rows themselves are the keys and values of all heads.
#include <algorithm>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/latent_attention.h"

namespace sida {

cuda::LatentLayer CudaOps::latent_layer(size_t layer) const {
  return {cache_.rows(0, layer), cache_.page_elements(layer),
          static_cast<uint32_t>(cache_.layer(layer).head_dim_padded()), cache_.shape().format};
}

void CudaOps::write_latent(const LatentSpec& spec, size_t layer) {
  const float* rows = work_.activations.keys;
  cuda::write_latent(
      latent_layer(layer), own(layer),
      {rows, rows + tokens_ * spec.rank, static_cast<uint32_t>(spec.rank), static_cast<uint32_t>(spec.rotary)},
      stream());
}

void CudaOps::attend_latent(const LatentTask& task) {
  for (size_t tile = 0; tile < tiles_.size(); tile += kLatentTiles) {
    attend_latent_tiles(task, tile, std::min(kLatentTiles, tiles_.size() - tile));
  }
}

void CudaOps::attend_latent_tiles(const LatentTask& task, size_t first, size_t count) {
  const AttentionSpec& spec = *task.spec;
  const LatentSpec& latent = *spec.latent;
  const size_t stride = cache_.layer(task.cache_layer).head_dim_padded();
  const auto row_of = [&](size_t tile) { return sequences_[tiles_[tile].sequence].begin + tiles_[tile].row; };
  const size_t begin = row_of(first), end = first + count < tiles_.size() ? row_of(first + count) : tokens_;
  const auto rows = static_cast<uint32_t>(end - begin);
  const cuda::LatentQueries queries{work_.latent_queries,
                                    work_.latent_outputs,
                                    static_cast<uint32_t>(spec.heads),
                                    static_cast<uint32_t>(begin),
                                    static_cast<uint32_t>(latent.rank),
                                    static_cast<uint32_t>(latent.rotary),
                                    spec.scale};
  const float* q = work_.activations.queries;
  head_products(task.weights->keys, {q + begin * spec.query_width(), spec.head_dim, spec.query_width()},
                {work_.latent_queries, stride, spec.heads * stride}, rows);
  cuda::take_rotated(q, static_cast<uint32_t>(spec.head_dim), queries, static_cast<uint32_t>(stride), rows, stream());
  cuda::latent_attention(latent_layer(task.cache_layer), own(task.cache_layer), static_cast<uint32_t>(first),
                         static_cast<uint32_t>(count), queries, stream());
  head_products(task.weights->values, {work_.latent_outputs, stride, spec.heads * stride},
                {work_.activations.values + begin * spec.output_width(), latent.value_dim, spec.output_width()}, rows);
}

void CudaOps::head_products(const std::vector<PanelMatrix>& heads, const HeadColumns<const float>& from,
                            const HeadColumns<float>& to, uint32_t rows) {
  for (size_t begin = 0; begin < heads.size(); begin += cuda::kMaxProducts) {
    products_.clear();
    for (size_t head = begin; head < std::min(begin + cuda::kMaxProducts, heads.size()); ++head) {
      products_.push_back(
          {from.first + head * from.head_stride, nullptr, 1, rows, heads[head], to.first + head * to.head_stride});
    }
    cuda::gemm(products_, {from.row_stride, to.row_stride, Epilogue::kStore}, stream());
  }
}

}  // namespace sida
