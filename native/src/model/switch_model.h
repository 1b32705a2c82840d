#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "expert/expert_store.h"
#include "model/dispatch.h"
#include "model/kv_cache.h"
#include "model/predicted_routing.h"
#include "model/relative_position.h"
#include "model/sequence_span.h"
#include "model/switch_config.h"
#include "model/switch_weights.h"
#include "model/workspace.h"

namespace sida {

/// Told the MoE layer's number inside the pass and the expert of each token, kDropped over capacity.
using RoutedHook = std::function<void(size_t layer, std::span<const uint16_t> experts)>;

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
  void route(const PanelMatrix& router, std::span<const SequenceSpan> sequences, size_t tokens,
             const RoutingTrace& trace, size_t trace_layer);
  void add_expert_outputs();
  void product(const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y, size_t y_stride,
               Epilogue epilogue);
  void norm(const float* weight, size_t tokens);

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

  /// A run of one sequence's query rows of one head.
  struct AttentionPart {
    const SequenceSpan* sequence;
    size_t head;
    size_t row;
  };
  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  Dispatch dispatch_;
  std::vector<AttentionPart> attention_parts_;
  std::vector<std::vector<const float*>> page_pointers_;  ///< by thread
  std::vector<ExpertRows> group_;
};

}  // namespace sida
