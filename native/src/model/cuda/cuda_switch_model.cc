#include "model/cuda/cuda_switch_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "core/error.h"
#include "core/profile.h"
#include "model/relative_position.h"
#include "ops/cuda/rows.h"

namespace sida {

CudaSwitchModel::CudaSwitchModel(const SwitchConfig& config, const SwitchWeights& weights,
                                 DeviceMemory& memory, KvCache& cache, ExpertStore& experts,
                                 const BatchLimits& limits)
    : config_(config),
      weights_(weights),
      device_(static_cast<CudaBackend&>(memory.backend())),
      cache_(cache),
      experts_(experts),
      work_(memory, config, limits),
      uploads_(work_.uploads, work_.upload_bytes, device_.compute()),
      d_(static_cast<size_t>(config.d_model)),
      inner_(static_cast<size_t>(config.num_heads) * static_cast<size_t>(config.d_kv)),
      chosen_(make_cuda_host_array<uint16_t>(limits.max_batch_tokens)),
      logits_(make_cuda_host_array<float>(std::min(limits.max_batch_tokens, CudaWorkspace::kHeadRows) *
                                          static_cast<size_t>(config.vocab_size))) {
  if (static_cast<uint32_t>(config.d_kv) > cuda::kMostHeadWidth) {
    throw Error("cannot_run", "heads of " + std::to_string(config.d_kv) +
                                  " columns exceed the cuda device's " +
                                  std::to_string(cuda::kMostHeadWidth));
  }
  upload_bias(weights.encoder.position_bias, true, limits.max_batch_tokens, work_.encoder_bias,
              encoder_bias_);
  upload_bias(weights.decoder.position_bias, false, cache.pages() * kPageTokens, work_.decoder_bias,
              decoder_bias_);
}

void CudaSwitchModel::wait() { cuda_check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

void CudaSwitchModel::download(void* to, const void* from, size_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "cudaMemcpyAsync");
}

void CudaSwitchModel::upload_bias(const float* weight, bool bidirectional, size_t positions, float* to,
                                  cuda::AttentionBias& bias) {
  std::vector<float> buckets(static_cast<size_t>(config_.relative_attention_num_buckets * config_.num_heads));
  download(buckets.data(), weight, buckets.size() * sizeof(float));
  wait();
  std::vector<float> values(PositionBias::floats(config_, positions));
  const PositionBias host(config_, buckets.data(), bidirectional, positions, values.data());
  cuda_check(
      cudaMemcpyAsync(to, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice, stream()),
      "cudaMemcpyAsync");
  wait();
  bias = {to + (host.head(0) - values.data()), host.stride()};
}

cuda::CacheLayer CudaSwitchModel::cache_layer(size_t layer) const {
  return {cache_.keys(0, layer, 0),
          cache_.page_floats(),
          static_cast<size_t>(cache_.values(0, layer, 0) - cache_.keys(0, layer, 0)),
          static_cast<uint32_t>(config_.num_heads),
          static_cast<uint32_t>(config_.d_kv),
          static_cast<uint32_t>(cache_.d_kv_padded())};
}

cuda::PagedBatch CudaSwitchModel::paged(std::span<const SequenceSpan> sequences, bool cross, bool causal) {
  paged_sequences_.clear();
  tiles_.clear();
  page_table_.clear();
  // Sequences of one context share its pages.
  std::unordered_map<const std::vector<uint32_t>*, uint32_t> first_pages;
  for (const SequenceSpan& span : sequences) {
    const auto* pages = cross ? span.context_pages : span.pages;
    const auto [first, fresh] = first_pages.try_emplace(pages, static_cast<uint32_t>(page_table_.size()));
    if (fresh) page_table_.insert(page_table_.end(), pages->begin(), pages->end());
    const size_t keys = cross ? span.context_keys : causal ? span.past + span.count : span.attended;
    const auto index = static_cast<uint32_t>(paged_sequences_.size());
    paged_sequences_.push_back({static_cast<uint32_t>(span.begin), static_cast<uint32_t>(span.count),
                                static_cast<uint32_t>(span.past), static_cast<uint32_t>(keys),
                                first->second});
    for (uint32_t row = 0; row < span.count; row += cuda::kTileRows) tiles_.push_back({index, row});
  }
  return {uploads_.put(std::span<const cuda::PagedSequence>(paged_sequences_)),
          uploads_.put(std::span<const cuda::RowTile>(tiles_)), tiles_.size(),
          uploads_.put(std::span<const uint32_t>(page_table_))};
}

void CudaSwitchModel::start(const PanelMatrix& embedding, std::span<const int32_t> tokens,
                            std::span<const SequenceSpan> sequences, bool causal) {
  // A pass that an error ended may have left work that reads the uploads.
  wait();
  uploads_.start();
  own_ = paged(sequences, false, causal);
  const ProfileScope scope(ProfileOp::kEmbed);
  cuda::embed(embedding, uploads_.put(tokens), tokens.size(), work_.hidden, stream());
}

void CudaSwitchModel::encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                             const RoutingTrace& trace) {
  const size_t count = tokens.size();
  start(weights_.encoder.embedding, tokens, sequences, false);
  size_t moe_layers = 0;
  for (size_t i = 0; i < weights_.encoder.layers.size(); ++i) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = static_cast<int32_t>(i)});
    const LayerWeights& layer = weights_.encoder.layers[i];
    // The context's own pages serve as scratch until the cross-attention keys replace it below.
    self_attention(layer.self, 0, count, false);
    feed_forward(layer.feed_forward, sequences, count, trace, moe_layers);
    moe_layers += layer.feed_forward.sparse;
  }
  norm(weights_.encoder.final_norm, count);
  for (size_t layer = 0; layer < weights_.decoder.layers.size(); ++layer) {
    const AttentionWeights& cross = weights_.decoder.layers[layer].cross;
    const cuda::Product products[] = {
        {work_.normed, nullptr, 1, static_cast<uint32_t>(count), cross.k, work_.second},
        {work_.normed, nullptr, 1, static_cast<uint32_t>(count), cross.v, work_.third}};
    cuda::gemm(products, {d_, inner_, Epilogue::kStore}, stream());
    cuda::write_keys(cache_layer(layer), own_, work_.second, stream());
    cuda::write_values(cache_layer(layer), own_, work_.third, stream());
  }
  cuda_check_launches("encode");
  wait();
}

void CudaSwitchModel::decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                             const RoutingTrace& trace) {
  const size_t count = tokens.size();
  start(weights_.decoder.embedding, tokens, sequences, true);
  context_ = paged(sequences, true, false);
  size_t moe_layers = 0;
  for (size_t i = 0; i < weights_.decoder.layers.size(); ++i) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = static_cast<int32_t>(i)});
    const LayerWeights& layer = weights_.decoder.layers[i];
    self_attention(layer.self, i, count, true);
    cross_attention(layer.cross, i, count);
    feed_forward(layer.feed_forward, sequences, count, trace, moe_layers);
    moe_layers += layer.feed_forward.sparse;
  }
  norm(weights_.decoder.final_norm, count);
  cuda_check_launches("decode");
  wait();
}

void CudaSwitchModel::head(std::span<const int32_t> rows, float* logits) {
  const ProfileScope scope(ProfileOp::kHead, {.tokens = static_cast<int32_t>(rows.size())});
  const float scale = config_.tie_word_embeddings ? 1.0f / std::sqrt(static_cast<float>(d_)) : 1.0f;
  const int32_t* ids = uploads_.put(rows);
  const size_t vocab = weights_.head.n;
  for (size_t row = 0; row < rows.size(); row += CudaWorkspace::kHeadRows) {
    const size_t count = std::min(CudaWorkspace::kHeadRows, rows.size() - row);
    cuda::take_rows(work_.normed, ids + row, count, d_, scale, work_.first, stream());
    product(work_.first, d_, count, weights_.head, work_.logits, vocab, Epilogue::kStore);
    cuda_check_launches("head");
    download(logits_.get(), work_.logits, count * vocab * sizeof(float));
    wait();
    std::memcpy(logits + row * vocab, logits_.get(), count * vocab * sizeof(float));
  }
}

void CudaSwitchModel::states(size_t tokens, float* out) {
  download(out, work_.normed, tokens * d_ * sizeof(float));
  wait();
}

void CudaSwitchModel::norm(const float* weight, size_t tokens) {
  const ProfileScope scope(ProfileOp::kNorm);
  cuda::rms_norm(work_.hidden, weight, config_.layer_norm_epsilon, tokens, d_, work_.normed, stream());
}

void CudaSwitchModel::product(const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
                              size_t y_stride, Epilogue epilogue) {
  const cuda::Product one{x, nullptr, 1, static_cast<uint32_t>(rows), w, y};
  cuda::gemm({&one, 1}, {x_stride, y_stride, epilogue}, stream());
}

void CudaSwitchModel::self_attention(const AttentionWeights& weights, size_t layer, size_t tokens,
                                     bool decoder) {
  const ProfileScope scope(ProfileOp::kSelfAttention);
  norm(weights.norm, tokens);
  const auto rows = static_cast<uint32_t>(tokens);
  const cuda::Product products[] = {{work_.normed, nullptr, 1, rows, weights.q, work_.first},
                                    {work_.normed, nullptr, 1, rows, weights.k, work_.second},
                                    {work_.normed, nullptr, 1, rows, weights.v, work_.third}};
  cuda::gemm(products, {d_, inner_, Epilogue::kStore}, stream());
  cuda::write_keys(cache_layer(layer), own_, work_.second, stream());
  cuda::write_values(cache_layer(layer), own_, work_.third, stream());
  cuda::attention(cache_layer(layer), own_, work_.first, decoder ? decoder_bias_ : encoder_bias_, decoder,
                  stream());
  product(work_.first, inner_, tokens, weights.o, work_.hidden, d_, Epilogue::kAdd);
}

void CudaSwitchModel::cross_attention(const AttentionWeights& weights, size_t layer, size_t tokens) {
  const ProfileScope scope(ProfileOp::kCrossAttention);
  norm(weights.norm, tokens);
  product(work_.normed, d_, tokens, weights.q, work_.first, inner_, Epilogue::kStore);
  cuda::attention(cache_layer(layer), context_, work_.first, {nullptr, 0}, false, stream());
  product(work_.first, inner_, tokens, weights.o, work_.hidden, d_, Epilogue::kAdd);
}

void CudaSwitchModel::feed_forward(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                                   size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  norm(weights.norm, tokens);
  if (weights.sparse) return moe(weights, sequences, tokens, trace, trace_layer);
  const ProfileScope scope(ProfileOp::kDense);
  const auto d_ff = static_cast<size_t>(config_.d_ff);
  product(work_.normed, d_, tokens, weights.wi, work_.feed_forward, d_ff, Epilogue::kRelu);
  product(work_.feed_forward, d_ff, tokens, weights.wo, work_.hidden, d_, Epilogue::kAdd);
}

}  // namespace sida
