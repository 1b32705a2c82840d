#pragma once

#include <span>
#include <vector>

#include "device/cuda/cuda_backend.h"
#include "expert/expert_store.h"
#include "model/batch_limits.h"
#include "model/cuda/cuda_workspace.h"
#include "model/cuda/pass_uploads.h"
#include "model/dispatch.h"
#include "model/kv_cache.h"
#include "model/switch_config.h"
#include "model/switch_model.h"
#include "model/switch_weights.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/gemm.h"

namespace sida {

/// SwitchModel on a GPU. The host runs ahead of it: a pass waits for the device once at its end and, where
/// routers choose, once in each MoE layer for their choices.
class CudaSwitchModel final : public SwitchModel {
 public:
  /// `memory` is a CudaBackend's, and `weights` lie in it. `limits` size the workspace.
  CudaSwitchModel(const SwitchConfig& config, const SwitchWeights& weights, DeviceMemory& memory,
                  KvCache& cache, ExpertStore& experts, const BatchLimits& limits);

  void encode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
              const RoutingTrace& trace) override;
  void decode(std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
              const RoutingTrace& trace) override;
  void head(std::span<const int32_t> rows, float* logits) override;
  void states(size_t tokens, float* out) override;

 private:
  cudaStream_t stream() const { return device_.compute(); }
  void wait();
  void download(void* to, const void* from, size_t bytes);
  void upload_bias(const float* weight, bool bidirectional, size_t positions, float* to,
                   cuda::AttentionBias& bias);

  void start(const PanelMatrix& embedding, std::span<const int32_t> tokens,
             std::span<const SequenceSpan> sequences, bool causal);
  cuda::PagedBatch paged(std::span<const SequenceSpan> sequences, bool cross, bool causal);
  cuda::CacheLayer cache_layer(size_t layer) const;
  void norm(const float* weight, size_t tokens);
  void product(const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y, size_t y_stride,
               Epilogue epilogue);
  void self_attention(const AttentionWeights& weights, size_t cache_layer, size_t tokens, bool decoder);
  void cross_attention(const AttentionWeights& weights, size_t layer, size_t tokens);
  void feed_forward(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences, size_t tokens,
                    const RoutingTrace& trace, size_t trace_layer);
  void moe(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences, size_t tokens,
           const RoutingTrace& trace, size_t trace_layer);
  /// Sets dispatch_ and returns each choice's alpha on the device; null where dispatch_ has it.
  const float* route(const PanelMatrix& router, std::span<const SequenceSpan> sequences, size_t tokens,
                     const RoutingTrace& trace, size_t trace_layer);
  /// dispatch_ on the device.
  struct Choices {
    const uint32_t* order;  ///< as in Dispatch
    const uint32_t*
        positions;       ///< (tokens, k): where a token's outputs stand, by expert; of add_expert_outputs()
    const float* alpha;  ///< (tokens, k)
  };
  Choices upload_choices(const float* alpha, size_t tokens);
  void run_experts(const uint32_t* order);

  const SwitchConfig& config_;
  const SwitchWeights& weights_;
  CudaBackend& device_;
  KvCache& cache_;
  ExpertStore& experts_;
  CudaWorkspace work_;
  PassUploads uploads_;
  cuda::AttentionBias encoder_bias_;
  cuda::AttentionBias decoder_bias_;
  size_t d_;
  size_t inner_;
  /// Page-locked, so that what comes back is not copied twice.
  CudaHostArray<uint16_t> chosen_;
  CudaHostArray<float> logits_;

  cuda::PagedBatch own_;
  cuda::PagedBatch context_;
  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  Dispatch dispatch_;
  std::vector<cuda::PagedSequence> paged_sequences_;
  std::vector<cuda::RowTile> tiles_;
  std::vector<uint32_t> page_table_;
  std::vector<uint32_t> choices_;
  std::vector<LayerVisit::Expert> group_;
  std::vector<cuda::Product> products_;
};

}  // namespace sida
