#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "kv/kv_cache.h"
#include "ops/cpu/cpu_workspace.h"
#include "ops/ops.h"
#include "spec/relative_position.h"
#include "weights/model_weights.h"

namespace sida {

/// Ops on the CPU, in float32. All instruction sets and numbers of threads give the same bits.
class CpuOps final : public Ops {
 public:
  /// Bytes that it takes from the device's memory.
  static uint64_t bytes(const ModelSpec& spec, const BatchLimits& limits) {
    return device_bytes(CpuWorkspace::bytes(spec, limits));
  }

  /// The constructor alone reads `weights`; the other arguments must outlive the ops. `limits` size the workspace.
  CpuOps(const ModelSpec& spec, const ModelWeights& weights, DeviceMemory& memory, KvCache& cache,
         const BatchLimits& limits);

  const Activations& activations() const override { return activations_; }

  void start(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens) override;
  void embed(const PanelMatrix& embedding, std::span<const int32_t> tokens, float scale) override;
  void add_row(const float* row, size_t tokens) override;
  void add_positions(const Sinusoids& sinusoids, std::span<const uint32_t> positions) override;
  void norm(const float* x, const NormWeights& weights, float epsilon, size_t rows, size_t width, float* y) override;
  void linear(const float* x, size_t rows, std::span<const Product> products, Epilogue epilogue) override;
  void clip(float* x, size_t count, float limit) override;
  void clear(float* x, size_t count) override;
  void add(const float* x, size_t count, float* y) override;
  void scale(float* x, size_t count, const float* factor) override;
  void rotate(float* x, size_t heads, size_t head_dim, size_t rope) override;
  void write_kv(size_t cache_layer) override;
  void attend(const AttendTask& task) override;
  void write_latent(const LatentSpec& spec, size_t cache_layer) override;
  void attend_latent(const LatentTask& task) override;
  void delta(const DeltaTask& task) override;
  void gate(Gate kind, float* logits, float* x, size_t count) override;
  void feed_forward(const FfnWeights& weights, Activation activation, size_t tokens, float* y) override;

  void choose(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
              Dispatch& dispatch) override;
  void choose_ahead(std::span<const LaterLayer> later, size_t tokens) override;
  void scale_choices(const PanelMatrix& output_gate, size_t tokens, Dispatch& dispatch) override;
  void weigh_choices(const float* factors, size_t experts, Dispatch& dispatch) override;
  void take_choices(const Dispatch&, size_t) override {}
  void experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
               const Dispatch& dispatch) override;
  float* expert_outputs() override { return work_.outputs; }
  void put_expert_outputs(const float* outputs, size_t first, size_t rows) override;
  void combine(const Dispatch& dispatch, size_t tokens, float* y) override;

  void logits(const PanelMatrix& head, std::span<const int32_t> rows, const HeadSpec& spec, float* out) override;
  void states(size_t tokens, float* out) override;
  void queue_states(size_t tokens, float* out) override { states(tokens, out); }
  void finish() override {}

 private:
  /// The query rows of one sequence for one call of the kernel.
  struct AttentionPart {
    const SequenceSpan* sequence;
    size_t head;  ///< the first query head
    size_t row;   ///< the first row of the sequence
    size_t rows;
    bool by_head;  ///< rows are heads of one token that share keys; otherwise tokens of one head
  };

  /// y (tokens, width) = what a layer's router reads of hidden.
  void norm_for_router(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* y);
  /// choose() for the rows of x (tokens, width).
  void choose_for(const float* x, const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens,
                  float* logits, Dispatch& dispatch);
  /// (tokens, width): cosines, then sines of each token for the stack's positions `rope`.
  float* rotary_table(size_t rope);
  /// Factors (tokens) of outputs: the sigmoid of one gate, or one of the softmax of two.
  const float* output_factors(const PanelMatrix& gate, size_t tokens, size_t of);
  /// The logits of a delta rule's β and decays become β and α.
  void make_rates(const DeltaTask& task);
  void split_attention(const AttendTask& task);
  void run_latent(const LatentTask& task, const AttentionPart& part, size_t thread);
  void run_attention(const AttendTask& task, const AttentionPart& part, size_t thread);
  /// Calls body(begin, end) for ranges of x (count) that are lines of 16 floats.
  template <class Body>
  void share_floats(size_t count, const Body& body);
  /// Calls body(begin, end) for ranges of [0, count). The threads share the ranges where the work, in floats, is large
  /// enough.
  template <class Body>
  void share(size_t count, size_t floats, const Body& body);

  const ModelSpec& spec_;
  CpuWorkspace work_;
  KvCache& cache_;
  ThreadPool pool_;
  Activations activations_;
  std::vector<std::optional<PositionBias>> biases_;  ///< by stack

  // State of the current pass.
  size_t stack_ = 0;
  size_t tokens_ = 0;
  std::span<const SequenceSpan> sequences_;

  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  std::vector<AttentionPart> attention_parts_;
  std::vector<std::vector<const std::byte*>> page_pointers_;  ///< by thread
  std::vector<LinearOutput> outputs_;
  std::vector<ExpertRows> group_;
};

// Below this many floats a loop over activations is faster on one thread than shared with others.
inline constexpr size_t kInlineFloats = 16 * 1024;

template <class Body>
void CpuOps::share_floats(size_t count, const Body& body) {
  share((count + 15) / 16, count, [&](size_t begin, size_t end) { body(begin * 16, std::min(count, end * 16)); });
}

template <class Body>
void CpuOps::share(size_t count, size_t floats, const Body& body) {
  const size_t chunks = floats < kInlineFloats ? 1 : std::min(count, pool_.threads() * 4);
  pool_.parallel_for(chunks, [&](size_t chunk, size_t) { body(count * chunk / chunks, count * (chunk + 1) / chunks); });
}

}  // namespace sida
