#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "expert/expert_store.h"
#include "model/cpu_workspace.h"
#include "model/dispatch.h"
#include "model/kv_cache.h"
#include "model/relative_position.h"
#include "model/sequence_span.h"
#include "model/switch_config.h"
#include "model/switch_model.h"
#include "model/switch_weights.h"

namespace sida {

/// SwitchModel on the CPU, in float32.
class CpuSwitchModel final : public SwitchModel {
 public:
  /// `limits` size the workspace.
  CpuSwitchModel(const SwitchConfig& config, const SwitchWeights& weights, DeviceMemory& memory,
                 KvCache& cache, ExpertStore& experts, const BatchLimits& limits);

  void encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
              const RoutingTrace& trace) override;
  void decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
              const RoutingTrace& trace) override;
  void head(std::span<const int32_t> rows, float* logits) override;
  void states(size_t tokens, float* out) override;

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
  CpuWorkspace work_;
  KvCache& cache_;
  ExpertStore& experts_;
  ThreadPool pool_;
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
