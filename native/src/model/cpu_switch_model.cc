#include "model/cpu_switch_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/profile.h"
#include "model/dispatch.h"
#include "ops/expert_ffn.h"
#include "ops/kernels.h"
#include "ops/linear.h"

namespace sida {
namespace {

// Below this many floats a loop over activations is cheaper on one thread than the hand-over to another.
constexpr size_t kInlineFloats = 16 * 1024;

}  // namespace

CpuSwitchModel::CpuSwitchModel(const SwitchConfig& config, const SwitchWeights& weights, DeviceMemory& memory,
                               KvCache& cache, ExpertStore& experts, const BatchLimits& limits)
    : config_(config),
      weights_(weights),
      work_(memory, config, limits),
      cache_(cache),
      experts_(experts),
      pool_(limits.threads),
      encoder_bias_(config, weights.encoder.position_bias, true, work_.tokens, work_.encoder_bias),
      decoder_bias_(config, weights.decoder.position_bias, false, cache.pages() * kPageTokens,
                    work_.decoder_bias),
      d_(static_cast<size_t>(config.d_model)),
      inner_(static_cast<size_t>(config.num_heads) * static_cast<size_t>(config.d_kv)),
      page_pointers_(pool_.threads()) {}

void CpuSwitchModel::product(const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
                             size_t y_stride, Epilogue epilogue) {
  linear(pool_, x, x_stride, rows, w, y, y_stride, epilogue, work_.int8);
}

void CpuSwitchModel::norm(const float* weight, size_t tokens) {
  const ProfileScope scope(ProfileOp::kNorm);
  const size_t chunks = tokens * d_ < kInlineFloats ? 1 : std::min(tokens, pool_.threads() * 4);
  pool_.parallel_for(chunks, [&](size_t chunk, size_t) {
    const size_t begin = tokens * chunk / chunks, end = tokens * (chunk + 1) / chunks;
    cpu_kernels().rms_norm(work_.hidden + begin * d_, weight, config_.layer_norm_epsilon, end - begin, d_,
                           work_.normed + begin * d_);
  });
}

void CpuSwitchModel::embed(const PanelMatrix& embedding, std::span<const int32_t> tokens) {
  const ProfileScope scope(ProfileOp::kEmbed);
  for (size_t i = 0; i < tokens.size(); ++i) {
    read_panel_row(embedding, static_cast<size_t>(tokens[i]), work_.hidden + i * d_);
  }
}

void CpuSwitchModel::encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                            const RoutingTrace& trace) {
  const size_t count = tokens.size();
  embed(weights_.encoder.embedding, tokens);
  size_t moe_layers = 0;
  for (size_t i = 0; i < weights_.encoder.layers.size(); ++i) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = static_cast<int32_t>(i)});
    const LayerWeights& layer = weights_.encoder.layers[i];
    // The context's own pages serve as scratch until the cross-attention keys replace it below.
    self_attention(layer.self, 0, sequences, count, false);
    feed_forward(layer.feed_forward, sequences, count, trace, moe_layers);
    moe_layers += layer.feed_forward.sparse;
  }
  norm(weights_.encoder.final_norm, count);
  const ProfileScope scope(ProfileOp::kContextKeys);
  for (size_t layer = 0; layer < weights_.decoder.layers.size(); ++layer) {
    const AttentionWeights& cross = weights_.decoder.layers[layer].cross;
    write_cache(cross.k, cross.v, layer, sequences, count);
  }
}

void CpuSwitchModel::decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                            const RoutingTrace& trace) {
  const size_t count = tokens.size();
  embed(weights_.decoder.embedding, tokens);
  size_t moe_layers = 0;
  for (size_t i = 0; i < weights_.decoder.layers.size(); ++i) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = static_cast<int32_t>(i)});
    const LayerWeights& layer = weights_.decoder.layers[i];
    self_attention(layer.self, i, sequences, count, true);
    cross_attention(layer.cross, i, sequences, count);
    feed_forward(layer.feed_forward, sequences, count, trace, moe_layers);
    moe_layers += layer.feed_forward.sparse;
  }
  norm(weights_.decoder.final_norm, count);
}

void CpuSwitchModel::head(std::span<const int32_t> rows, float* logits) {
  const ProfileScope scope(ProfileOp::kHead, {.tokens = static_cast<int32_t>(rows.size())});
  const float scale = config_.tie_word_embeddings ? 1.0f / std::sqrt(static_cast<float>(d_)) : 1.0f;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* state = work_.normed + static_cast<size_t>(rows[i]) * d_;
    for (size_t j = 0; j < d_; ++j) work_.first[i * d_ + j] = state[j] * scale;
  }
  product(work_.first, d_, rows.size(), weights_.head, logits, weights_.head.n, Epilogue::kStore);
}

void CpuSwitchModel::states(size_t tokens, float* out) {
  std::memcpy(out, work_.normed, tokens * d_ * sizeof(float));
}

void CpuSwitchModel::write_cache(const PanelMatrix& keys, const PanelMatrix& values, size_t layer,
                                 std::span<const SequenceSpan> sequences, size_t tokens) {
  product(work_.normed, d_, tokens, keys, work_.second, inner_, Epilogue::kStore);
  for (const SequenceSpan& s : sequences) {
    cache_.write_keys(*s.pages, layer, s.past, work_.second + s.begin * inner_, s.count);
  }
  product(work_.normed, d_, tokens, values, work_.second, inner_, Epilogue::kStore);
  for (const SequenceSpan& s : sequences) {
    cache_.write_values(*s.pages, layer, s.past, work_.second + s.begin * inner_, s.count);
  }
}

void CpuSwitchModel::self_attention(const AttentionWeights& weights, size_t cache_layer,
                                    std::span<const SequenceSpan> sequences, size_t tokens, bool decoder) {
  const ProfileScope scope(ProfileOp::kSelfAttention);
  norm(weights.norm, tokens);
  product(work_.normed, d_, tokens, weights.q, work_.first, inner_, Epilogue::kStore);
  write_cache(weights.k, weights.v, cache_layer, sequences, tokens);
  attend(cache_layer, sequences, false, decoder ? &decoder_bias_ : &encoder_bias_, decoder);
  product(work_.first, inner_, tokens, weights.o, work_.hidden, d_, Epilogue::kAdd);
}

void CpuSwitchModel::cross_attention(const AttentionWeights& weights, size_t layer,
                                     std::span<const SequenceSpan> sequences, size_t tokens) {
  const ProfileScope scope(ProfileOp::kCrossAttention);
  norm(weights.norm, tokens);
  product(work_.normed, d_, tokens, weights.q, work_.first, inner_, Epilogue::kStore);
  attend(layer, sequences, true, nullptr, false);
  product(work_.first, inner_, tokens, weights.o, work_.hidden, d_, Epilogue::kAdd);
}

void CpuSwitchModel::attend(size_t cache_layer, std::span<const SequenceSpan> sequences, bool cross,
                            const PositionBias* bias, bool causal) {
  const ProfileScope scope(ProfileOp::kAttend);
  constexpr size_t kRows = 16;
  attention_parts_.clear();
  for (const SequenceSpan& sequence : sequences) {
    for (size_t head = 0; head < static_cast<size_t>(config_.num_heads); ++head) {
      for (size_t row = 0; row < sequence.count; row += kRows) {
        attention_parts_.push_back({&sequence, head, row});
      }
    }
  }
  const auto d_kv = static_cast<size_t>(config_.d_kv);
  pool_.parallel_for(attention_parts_.size(), [&](size_t index, size_t thread) {
    const auto& [sequence, head, row] = attention_parts_[index];
    const auto& pages = cross ? *sequence->context_pages : *sequence->pages;
    auto& pointers = page_pointers_[thread];
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

void CpuSwitchModel::feed_forward(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                                  size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  norm(weights.norm, tokens);
  if (weights.sparse) return moe(weights, sequences, tokens, trace, trace_layer);
  const ProfileScope scope(ProfileOp::kDense);
  for (size_t row = 0; row < tokens; row += work_.feed_forward_rows) {
    const size_t rows = std::min(work_.feed_forward_rows, tokens - row);
    product(work_.normed + row * d_, d_, rows, weights.wi, work_.feed_forward, work_.feed_forward_stride,
            Epilogue::kRelu);
    product(work_.feed_forward, work_.feed_forward_stride, rows, weights.wo, work_.hidden + row * d_, d_,
            Epilogue::kAdd);
  }
}

void CpuSwitchModel::moe(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                         size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  const auto layer = static_cast<int32_t>(weights.moe_layer);
  const ProfileScope scope(ProfileOp::kMoe, {.layer = layer, .tokens = static_cast<int32_t>(tokens)});
  const auto experts = static_cast<size_t>(config_.num_experts);
  route(weights.router, sequences, tokens, trace, trace_layer);
  report_choices(trace, trace_layer, tokens, experts, dispatch_);
  LayerVisit visit(experts_, weights.moe_layer, dispatch_.needed, trace.found + trace_layer * experts);
  while (const auto first = visit.next()) {
    group_.clear();
    int32_t rows = 0;
    for (auto expert = first; expert; expert = visit.another()) {
      const size_t begin = dispatch_.begin[expert->index];
      const size_t count = dispatch_.begin[expert->index + 1] - begin;
      if (count == 0) continue;  // of a whole layer
      group_.push_back({experts_.layout().wi(expert->block), experts_.layout().wo(expert->block),
                        dispatch_.order.data() + begin, count, work_.second + begin * d_});
      profile_mark(ProfileOp::kTakeExpert,
                   {.layer = layer, .expert = expert->index, .tokens = static_cast<int32_t>(count)});
      rows += static_cast<int32_t>(count);
    }
    const ProfileScope computing(ProfileOp::kExperts, {.layer = layer, .tokens = rows});
    expert_ffn(pool_, group_, work_.normed, dispatch_.k, work_.expert_scratch());
  }
  add_expert_outputs();
}

void CpuSwitchModel::add_expert_outputs() {
  const ProfileScope scope(ProfileOp::kCombine);
  // By expert: the visit hands experts out as they are at hand, and sums must not depend on that. Threads
  // share the columns, so that a token of several experts keeps the order too.
  const size_t lines = (d_ + 15) / 16;
  const size_t chunks = dispatch_.order.size() * d_ < kInlineFloats ? 1 : std::min(lines, pool_.threads());
  pool_.parallel_for(chunks, [&](size_t chunk, size_t) {
    const size_t begin = lines * chunk / chunks * 16;
    const size_t end = std::min(d_, lines * (chunk + 1) / chunks * 16);
    for (size_t i = 0; i < dispatch_.order.size(); ++i) {
      const size_t choice = dispatch_.order[i];
      cpu_kernels().axpy(dispatch_.alpha[choice], work_.second + i * d_ + begin, end - begin,
                         work_.hidden + choice / dispatch_.k * d_ + begin);
    }
  });
}

void CpuSwitchModel::route(const PanelMatrix& router, std::span<const SequenceSpan> sequences, size_t tokens,
                           const RoutingTrace& trace, size_t trace_layer) {
  const ProfileScope scope(ProfileOp::kRoute);
  const auto experts = static_cast<size_t>(config_.num_experts);
  const auto capacity = static_cast<size_t>(config_.expert_capacity);
  if (trace.predicted != nullptr) {
    return route_predicted(*trace.predicted, trace_layer, tokens, experts, capacity, sequences, dispatch_);
  }
  product(work_.normed, d_, tokens, router, work_.router, experts, Epilogue::kStore);
  if (trace.router_logits != nullptr) {
    std::memcpy(trace.router_logits + trace_layer * tokens * experts, work_.router,
                tokens * experts * sizeof(float));
  }
  route_top1(work_.router, tokens, experts, capacity, sequences, dispatch_);
}

}  // namespace sida
