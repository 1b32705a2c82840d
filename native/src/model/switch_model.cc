#include "model/switch_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "model/dispatch.h"
#include "ops/kernels.h"
#include "ops/linear.h"

namespace sida {

SwitchModel::SwitchModel(const SwitchConfig& config, const SwitchWeights& weights, Workspace& workspace,
                         KvCache& cache, ExpertStore& experts, ThreadPool& pool)
    : config_(config),
      weights_(weights),
      work_(workspace),
      cache_(cache),
      experts_(experts),
      pool_(pool),
      encoder_bias_(config, weights.encoder.position_bias, true, workspace.tokens, workspace.encoder_bias),
      decoder_bias_(config, weights.decoder.position_bias, false, cache.pages() * kPageTokens,
                    workspace.decoder_bias),
      d_(static_cast<size_t>(config.d_model)),
      inner_(static_cast<size_t>(config.num_heads) * static_cast<size_t>(config.d_kv)) {}

void SwitchModel::embed(const PanelMatrix& embedding, std::span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    read_panel_row(embedding, static_cast<size_t>(tokens[i]), work_.hidden + i * d_);
  }
}

void SwitchModel::encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                         const RoutingTrace& trace) {
  const size_t count = tokens.size();
  embed(weights_.encoder.embedding, tokens);
  size_t moe_layers = 0;
  for (const LayerWeights& layer : weights_.encoder.layers) {
    // The context's own pages serve as scratch until the cross-attention keys replace it below.
    self_attention(layer.self, 0, sequences, count, false);
    feed_forward(layer.feed_forward, sequences, count, trace, moe_layers);
    moe_layers += layer.feed_forward.sparse;
  }
  cpu_kernels().rms_norm(work_.hidden, weights_.encoder.final_norm, config_.layer_norm_epsilon, count, d_,
                         work_.normed);
  for (size_t layer = 0; layer < weights_.decoder.layers.size(); ++layer) {
    const AttentionWeights& cross = weights_.decoder.layers[layer].cross;
    write_cache(cross.k, cross.v, layer, sequences, count);
  }
}

void SwitchModel::decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                         const RoutingTrace& trace) {
  const size_t count = tokens.size();
  embed(weights_.decoder.embedding, tokens);
  size_t moe_layers = 0;
  for (size_t i = 0; i < weights_.decoder.layers.size(); ++i) {
    const LayerWeights& layer = weights_.decoder.layers[i];
    self_attention(layer.self, i, sequences, count, true);
    cross_attention(layer.cross, i, sequences, count);
    feed_forward(layer.feed_forward, sequences, count, trace, moe_layers);
    moe_layers += layer.feed_forward.sparse;
  }
  cpu_kernels().rms_norm(work_.hidden, weights_.decoder.final_norm, config_.layer_norm_epsilon, count, d_,
                         work_.normed);
}

void SwitchModel::head(std::span<const int32_t> rows, float* logits) {
  const float scale = config_.tie_word_embeddings ? 1.0f / std::sqrt(static_cast<float>(d_)) : 1.0f;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* state = work_.normed + static_cast<size_t>(rows[i]) * d_;
    for (size_t j = 0; j < d_; ++j) work_.first[i * d_ + j] = state[j] * scale;
  }
  linear(pool_, work_.first, d_, rows.size(), weights_.head, logits, weights_.head.n, Epilogue::kStore);
}

void SwitchModel::write_cache(const PanelMatrix& keys, const PanelMatrix& values, size_t layer,
                              std::span<const SequenceSpan> sequences, size_t tokens) {
  linear(pool_, work_.normed, d_, tokens, keys, work_.second, inner_, Epilogue::kStore);
  for (const SequenceSpan& s : sequences) {
    cache_.write_keys(*s.pages, layer, s.past, work_.second + s.begin * inner_, s.count);
  }
  linear(pool_, work_.normed, d_, tokens, values, work_.second, inner_, Epilogue::kStore);
  for (const SequenceSpan& s : sequences) {
    cache_.write_values(*s.pages, layer, s.past, work_.second + s.begin * inner_, s.count);
  }
}

void SwitchModel::self_attention(const AttentionWeights& weights, size_t cache_layer,
                                 std::span<const SequenceSpan> sequences, size_t tokens, bool decoder) {
  cpu_kernels().rms_norm(work_.hidden, weights.norm, config_.layer_norm_epsilon, tokens, d_, work_.normed);
  linear(pool_, work_.normed, d_, tokens, weights.q, work_.first, inner_, Epilogue::kStore);
  write_cache(weights.k, weights.v, cache_layer, sequences, tokens);
  attend(cache_layer, sequences, false, decoder ? &decoder_bias_ : &encoder_bias_, decoder);
  linear(pool_, work_.first, inner_, tokens, weights.o, work_.hidden, d_, Epilogue::kAdd);
}

void SwitchModel::cross_attention(const AttentionWeights& weights, size_t layer,
                                  std::span<const SequenceSpan> sequences, size_t tokens) {
  cpu_kernels().rms_norm(work_.hidden, weights.norm, config_.layer_norm_epsilon, tokens, d_, work_.normed);
  linear(pool_, work_.normed, d_, tokens, weights.q, work_.first, inner_, Epilogue::kStore);
  attend(layer, sequences, true, nullptr, false);
  linear(pool_, work_.first, inner_, tokens, weights.o, work_.hidden, d_, Epilogue::kAdd);
}

void SwitchModel::attend(size_t cache_layer, std::span<const SequenceSpan> sequences, bool cross,
                         const PositionBias* bias, bool causal) {
  constexpr size_t kRows = 16;
  struct Task {
    const SequenceSpan* sequence;
    size_t head;
    size_t row;
  };
  std::vector<Task> tasks;
  for (const SequenceSpan& sequence : sequences) {
    for (size_t head = 0; head < static_cast<size_t>(config_.num_heads); ++head) {
      for (size_t row = 0; row < sequence.count; row += kRows) tasks.push_back({&sequence, head, row});
    }
  }
  const auto d_kv = static_cast<size_t>(config_.d_kv);
  std::vector<std::vector<const float*>> page_scratch(pool_.threads());
  pool_.parallel_for(tasks.size(), [&](size_t index, size_t thread) {
    const auto& [sequence, head, row] = tasks[index];
    const auto& pages = cross ? *sequence->context_pages : *sequence->pages;
    auto& pointers = page_scratch[thread];
    pointers.clear();
    for (const uint32_t page : pages) pointers.push_back(cache_.keys(page, cache_layer, head));
    for (const uint32_t page : pages) pointers.push_back(cache_.values(page, cache_layer, head));
    const size_t position = sequence->past + row;
    const size_t keys = cross ? sequence->context_keys : causal ? position + 1 : sequence->attended;
    float* q = work_.first + (sequence->begin + row) * inner_ + head * d_kv;
    AttentionTask task{};
    task.q = q;
    task.q_stride = inner_;
    task.rows = std::min(kRows, sequence->count - row);
    task.d_kv = d_kv;
    task.d_kv_padded = cache_.d_kv_padded();
    task.key_pages = pointers.data();
    task.value_pages = pointers.data() + pages.size();
    task.key_count = keys;
    task.causal_step = causal ? 1 : 0;
    task.bias = bias == nullptr ? nullptr : bias->head(head) - position;
    task.out = q;
    task.out_stride = inner_;
    task.scratch = work_.scores + thread * 4 * work_.score_stride;
    task.score_stride = work_.score_stride;
    cpu_kernels().attention(task);
  });
}

void SwitchModel::feed_forward(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                               size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  cpu_kernels().rms_norm(work_.hidden, weights.norm, config_.layer_norm_epsilon, tokens, d_, work_.normed);
  if (weights.sparse) return moe(weights, sequences, tokens, trace, trace_layer);
  const size_t ff = weights.wi.n;
  for (size_t row = 0; row < tokens; row += work_.feed_forward_rows) {
    const size_t rows = std::min(work_.feed_forward_rows, tokens - row);
    linear(pool_, work_.normed + row * d_, d_, rows, weights.wi, work_.feed_forward, ff, Epilogue::kRelu);
    linear(pool_, work_.feed_forward, ff, rows, weights.wo, work_.hidden + row * d_, d_, Epilogue::kAdd);
  }
}

void SwitchModel::moe(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                      size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  const auto experts = static_cast<size_t>(config_.num_experts);
  const Dispatch dispatch = route(weights.router, sequences, tokens, trace, trace_layer);
  std::copy(dispatch.expert.begin(), dispatch.expert.end(),
            trace.dispatch + trace_layer * tokens * dispatch.k);
  if (trace.on_routed && trace.predicted == nullptr) trace.on_routed(trace_layer, dispatch.expert);

  std::vector<uint16_t> visited = dispatch.needed;
  if (trace.whole_layers) {
    visited.resize(experts);
    std::iota(visited.begin(), visited.end(), uint16_t{0});
  }
  LayerVisit visit(experts_, weights.moe_layer, visited, trace.found + trace_layer * experts);
  while (const auto expert = visit.next()) {
    const size_t begin = dispatch.begin[expert->index];
    const size_t count = dispatch.begin[expert->index + 1] - begin;
    const PanelMatrix wi = experts_.layout().wi(expert->block);
    const PanelMatrix wo = experts_.layout().wo(expert->block);
    for (size_t row = 0; row < count; row += work_.feed_forward_rows) {
      const size_t rows = std::min(work_.feed_forward_rows, count - row);
      for (size_t i = 0; i < rows; ++i) {
        const size_t token = dispatch.order[begin + row + i] / dispatch.k;
        std::memcpy(work_.first + i * d_, work_.normed + token * d_, d_ * sizeof(float));
      }
      linear(pool_, work_.first, d_, rows, wi, work_.feed_forward, wi.n, Epilogue::kRelu);
      linear(pool_, work_.feed_forward, wi.n, rows, wo, work_.second + (begin + row) * d_, d_,
             Epilogue::kStore);
    }
  }
  // Only now, by expert: the visit hands experts out as they are at hand, and sums must not depend on that.
  for (size_t i = 0; i < dispatch.order.size(); ++i) {
    const size_t choice = dispatch.order[i];
    cpu_kernels().axpy(dispatch.alpha[choice], work_.second + i * d_, d_,
                       work_.hidden + choice / dispatch.k * d_);
  }
}

Dispatch SwitchModel::route(const PanelMatrix& router, std::span<const SequenceSpan> sequences, size_t tokens,
                            const RoutingTrace& trace, size_t trace_layer) {
  const auto experts = static_cast<size_t>(config_.num_experts);
  const auto capacity = static_cast<size_t>(config_.expert_capacity);
  if (trace.predicted != nullptr) {
    return route_predicted(*trace.predicted, trace_layer, tokens, experts, capacity, sequences);
  }
  linear(pool_, work_.normed, d_, tokens, router, work_.router, experts, Epilogue::kStore);
  if (trace.router_logits != nullptr) {
    std::memcpy(trace.router_logits + trace_layer * tokens * experts, work_.router,
                tokens * experts * sizeof(float));
  }
  return route_top1(work_.router, tokens, experts, capacity, sequences);
}

}  // namespace sida
