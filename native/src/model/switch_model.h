#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "expert/expert_store.h"
#include "model/kv_cache.h"
#include "model/predicted_routing.h"
#include "model/relative_position.h"
#include "model/switch_config.h"
#include "model/switch_weights.h"
#include "model/workspace.h"

namespace sida {

/// Expert of a token over its expert's capacity, in `dispatch`.
inline constexpr uint16_t kDropped = kNoExpert;

/// One sequence's part of a ragged pass: rows [begin, begin + count) of the activations.
struct SequenceSpan {
  size_t begin;
  size_t count;
  /// Tokens before these in the sequence (decoder).
  size_t past;
  /// Keys that may be attended to in the encoder: `count`, or less when the tail is padding.
  size_t attended;
  /// Pages of the sequence's own keys and values. Encoder: the new context's; decoder: its self-attention's.
  const std::vector<uint32_t>* pages;
  /// Decoder: pages and attended keys of the context.
  const std::vector<uint32_t>* context_pages = nullptr;
  size_t context_keys = 0;
};

/// Told the MoE layer's number inside the pass and the expert of each token, kDropped over capacity.
using RoutedHook = std::function<void(size_t layer, std::span<const uint16_t> experts)>;

struct Dispatch;

/// What a pass reports of its MoE layers, in order, and what routes them. Pointers may be null where not
/// wanted.
struct RoutingTrace {
  uint16_t* dispatch;    ///< (layers, tokens, k): the experts of each token, kDropped over capacity
  uint8_t* found;        ///< (layers, experts): Found
  float* router_logits;  ///< (layers, tokens, experts); not with `predicted`
  /// Called when a layer's routers have chosen and before their experts are loaded; may be empty.
  const RoutedHook& on_routed;
  /// Checked routing of all layers, in place of the routers.
  const PredictedRouting* predicted = nullptr;
  /// A layer's turn takes every expert of it, needed or not; answers stay the same.
  bool whole_layers = false;
};

/// The Switch Transformer of transformers 5 in float32: a pure function of weights and inputs. Rows of one
/// sequence never depend on another's, nor on how many there are.
class SwitchModel {
 public:
  SwitchModel(const SwitchConfig& config, const SwitchWeights& weights, Workspace& workspace, KvCache& cache,
              ExpertStore& experts, ThreadPool& pool);

  /// Runs the encoder over `tokens` and leaves its states in `workspace.normed` and the cross-attention keys
  /// and values of every decoder layer in the sequences' pages.
  void encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
              const RoutingTrace& trace);

  /// Runs the decoder over new tokens of sequences and leaves its final states in `workspace.normed`.
  void decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
              const RoutingTrace& trace);

  /// Logits (rows.size(), vocab) of rows of `workspace.normed`.
  void head(std::span<const int32_t> rows, float* logits);

 private:
  void embed(const PanelMatrix& embedding, std::span<const int32_t> tokens);
  void self_attention(const AttentionWeights& weights, size_t cache_layer,
                      std::span<const SequenceSpan> sequences, size_t tokens, bool decoder);
  void cross_attention(const AttentionWeights& weights, size_t layer, std::span<const SequenceSpan> sequences,
                       size_t tokens);
  void attend(size_t cache_layer, std::span<const SequenceSpan> sequences, bool cross,
              const PositionBias* bias, bool causal);
  void write_cache(const PanelMatrix& keys, const PanelMatrix& values, size_t layer,
                   std::span<const SequenceSpan> sequences, size_t tokens);
  void feed_forward(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences, size_t tokens,
                    const RoutingTrace& trace, size_t trace_layer);
  void moe(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences, size_t tokens,
           const RoutingTrace& trace, size_t trace_layer);
  Dispatch route(const PanelMatrix& router, std::span<const SequenceSpan> sequences, size_t tokens,
                 const RoutingTrace& trace, size_t trace_layer);

  const SwitchConfig& config_;
  const SwitchWeights& weights_;
  Workspace& work_;
  KvCache& cache_;
  ExpertStore& experts_;
  ThreadPool& pool_;
  PositionBias encoder_bias_;
  PositionBias decoder_bias_;
  size_t d_;
  size_t inner_;
};

}  // namespace sida
