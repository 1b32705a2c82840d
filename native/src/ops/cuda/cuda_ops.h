#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "device/cuda/cuda_backend.h"
#include "kv/kv_cache.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/cuda_device_passes.h"
#include "ops/cuda/cuda_workspace.h"
#include "ops/cuda/gemm.h"
#include "ops/cuda/latent_attention.h"
#include "ops/cuda/pass_uploads.h"
#include "ops/cuda/rounded.h"
#include "ops/cuda/rows.h"
#include "ops/ops.h"
#include "spec/batch_limits.h"
#include "weights/model_weights.h"

namespace sida {

/// Ops on a GPU. The host runs ahead of the device. It waits in finish(), in choose() and choose_ahead() for the
/// routers' choices, and in logits() and states() for the results.
class CudaOps final : public Ops {
 public:
  /// Bytes that the ops take of the device's memory.
  static uint64_t bytes(const ModelSpec& spec, const BatchLimits& limits) { return CudaWorkspace::bytes(spec, limits); }

  /// `memory` is a CudaBackend's and holds `weights` and `cache`. All arguments but `limits` must outlive the ops.
  /// Throws cannot_run where a head is wider than the kernels support.
  CudaOps(const ModelSpec& spec, const ModelWeights& weights, DeviceMemory& memory, KvCache& cache,
          const BatchLimits& limits);

  const Activations& activations() const override { return work_.activations; }

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
  void prepare_heads(const HeadsTask& task) override;
  void attend(const AttendTask& task) override;
  void write_latent(const LatentSpec& spec, size_t cache_layer) override;
  void attend_latent(const LatentTask& task) override;
  void delta(const DeltaTask& task) override;
  void gate(Gate kind, float* logits, float* x, size_t count) override;
  void feed_forward(const FfnWeights& weights, Activation activation, size_t tokens, float* y) override;

  void choose(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
              Dispatch& dispatch) override;
  void queue_ahead(std::span<const LaterLayer> later, size_t tokens) override;
  void choose_ahead(std::span<const LaterLayer> later, size_t tokens) override;
  void scale_choices(const PanelMatrix& output_gate, size_t tokens, Dispatch& dispatch) override;
  void weigh_choices(const float* factors, size_t experts, Dispatch& dispatch) override;
  void take_choices(const Dispatch& dispatch, size_t tokens) override;
  void experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
               const Dispatch& dispatch) override;
  float* expert_outputs() override { return nullptr; }
  void put_expert_outputs(const float* outputs, size_t first, size_t rows) override;
  void combine(const Dispatch& dispatch, size_t tokens, float* y) override;
  DevicePasses* device_passes() override { return device_passes_ ? &*device_passes_ : nullptr; }

  void logits(const PanelMatrix& head, std::span<const int32_t> rows, const HeadSpec& spec, float* out) override;
  void states(size_t tokens, float* out) override;
  void queue_states(size_t tokens, float* out) override;
  void finish() override;

 private:
  friend class CudaDevicePasses;

  /// A launch that adds to hidden. It is held back until the next op: a norm of hidden becomes its end.
  struct HeldProduct {
    cuda::Product product;
  };
  struct HeldSum {
    const uint32_t* positions;
    const float* alpha;
    size_t tokens, k;
  };

  /// For the next launch, behind everything that was held back and put. Arguments of a call have no order, so nothing
  /// may be put in a call that has this as an argument.
  cudaStream_t stream() {
    launch_held({}, nullptr);
    return device_.compute();
  }
  /// Unless `normed` (tokens, width) is null, it becomes the norm of hidden.
  void launch_held(const cuda::RowNorm& norm, float* normed);
  void wait();
  void download(void* to, const void* from, size_t bytes);
  void upload_bias(size_t stack, const BatchLimits& limits, const float* weight);
  /// The pass's rows with the pages of their sequences in a group of layers, or of the parents for cross-attention.
  /// `tiles` is tiles_ on the device.
  cuda::PagedBatch paged(std::span<const SequenceSpan> sequences, const cuda::RowTile* tiles, size_t group, bool cross);
  const cuda::PagedBatch& own(size_t layer) const { return own_[cache_.group_of(layer)]; }
  cuda::RotaryTable upload_rotary(const Rope& rope, std::span<const SequenceSpan> sequences, size_t tokens);
  cuda::CacheLayer cache_layer(size_t layer) const;
  void product(const float* x, size_t rows, const PanelMatrix& w, float* y, Epilogue epilogue);
  /// Whether products with such weights take activations in 8 bits.
  bool rounds(WeightFormat format) const { return activations_ == ActivationFormat::kInt8 && quantized(format); }
  /// Rows (rows, k) of x in 8 bits, in work_.rounded.
  cuda::RoundedRows rounded(const float* x, size_t rows, size_t k);
  /// normed in 8 bits, of all rows of the pass.
  cuda::RoundedRows rounded_normed();
  /// The rows of products_ in 8 bits, each at its place in x (rows, k), the hidden layer of experts.
  cuda::RoundedRows rounded_hidden(const float* x, size_t rows, size_t k);
  /// products_, of rows of x; `codes`: of these rows in 8 bits, null where products take floats.
  void multiply(const float* x, const cuda::RoundedRows* codes, const cuda::GemmShape& shape);
  /// work_.gates = normed times the matrix. Always of floats, as on the CPU.
  void output_gates(const PanelMatrix& gate, size_t tokens);
  /// Columns of each head: head h's row r starts at first + h · head_stride + r · row_stride.
  template <class T>
  struct HeadColumns {
    T* first;
    size_t head_stride, row_stride;
  };
  cuda::LatentLayer latent_layer(size_t layer) const;
  void attend_latent_tiles(const LatentTask& task, size_t first, size_t count);
  /// Each head's rows times its matrix.
  void head_products(const std::vector<PanelMatrix>& heads, const HeadColumns<const float>& from,
                     const HeadColumns<float>& to, uint32_t rows);
  /// The rows (tokens, width) that a layer's router reads.
  const float* router_rows(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens);
  /// Routes the rows of x; the choices go to `expert` and `alpha` (tokens, k), the logits to work_.router.
  void route(const float* x, const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, uint16_t* expert,
             float* alpha);
  /// The same to `place` of chosen_, where the choices are once the stream is there.
  void queue_choices(const float* x, const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens,
                     size_t place);
  void read_choices(const RouterSpec& spec, size_t tokens, size_t place, Dispatch& dispatch) const;
  std::byte* place_of_choices(size_t place) const { return chosen_.get() + place * choices_stride_; }
  /// y (tokens, width) = what a layer's router reads of hidden.
  void norm_for_router(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* y);
  void run_experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
                   const Dispatch& dispatch);

  /// The most later layers whose routers run before one wait.
  static constexpr size_t kMostAhead = 4;

  const ModelSpec& spec_;
  ActivationFormat activations_;
  CudaBackend& device_;
  KvCache& cache_;
  CudaWorkspace work_;
  PassUploads uploads_;
  std::vector<cuda::AttentionBias> biases_;  ///< by stack
  /// Page-locked: kernels write choices to it without a copy, and downloads are not copied twice.
  size_t choices_stride_;
  CudaHostArray<std::byte> chosen_;
  CudaHostArray<float> logits_;
  std::optional<CudaDevicePasses> device_passes_;

  // State of the current pass, on the device.
  size_t stack_ = 0;
  size_t tokens_ = 0;
  uint32_t tile_rows_ = 0;             ///< the most of a tile
  std::vector<cuda::PagedBatch> own_;  ///< by group of the cache's layers
  cuda::PagedBatch parents_;
  std::vector<cuda::RotaryTable> rotary_tables_;  ///< of each kind of rotary positions
  std::variant<std::monostate, HeldProduct, HeldSum> held_;
  bool ahead_queued_ = false;
  // State of the current MoE layer, on the device.
  const uint32_t* order_ = nullptr;      ///< as in Dispatch
  const uint32_t* positions_ = nullptr;  ///< (tokens, k): as add_expert_outputs() takes them
  const float* alpha_ = nullptr;         ///< (tokens, k): by expert, as positions_
  bool normed_rounded_ = false;          ///< work_.rounded holds normed

  // Kept from layer to layer, so that a pass allocates nothing once they have grown.
  std::vector<cuda::PagedSequence> sequences_;
  std::vector<cuda::RowTile> tiles_;
  std::vector<uint32_t> page_table_;
  std::vector<float> rotary_;
  std::vector<uint32_t> choices_;
  std::vector<cuda::Product> products_;
  std::vector<cuda::RoundedProduct> rounded_products_;
  std::vector<cuda::RowRange> ranges_;
  std::vector<float> gates_;                                             ///< (tokens, 2)
  std::unordered_map<const float*, std::vector<float>> expert_factors_;  ///< by their place on the device
};

}  // namespace sida
