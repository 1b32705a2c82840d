#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kv/sequence_span.h"
#include "ops/device_passes.h"
#include "ops/dispatch.h"
#include "spec/epilogue.h"
#include "spec/spec.h"
#include "weights/expert_layout.h"
#include "weights/model_weights.h"
#include "weights/panels.h"

namespace sida {

/// Activations of one pass, in the device's memory: f32, row-major, rows without gaps.
struct Activations {
  float* hidden;   ///< (tokens, width): the residual stream
  float* normed;   ///< (tokens, width)
  float* branch;   ///< (tokens, width): what is normed before it is added; null where no layer has post-norms
  float* queries;  ///< (tokens, query width); attention writes its outputs here; of a delta rule gates
  float* keys;     ///< (tokens, kv width); of latent attention (tokens, rank), then (tokens, rotary); of a delta rule
                   ///< queries (tokens, key width), then keys; of gated attention later gates (tokens, query width)
  float* values;   ///< (tokens, kv width); of latent attention compressed queries, later (tokens, output width); of a
                   ///< delta rule (tokens, value width), then logits of β (tokens, value heads), then decays
};

/// One product of the rows of x: y (rows, w.n) = epilogue(x (rows, w.k) · W).
struct Product {
  PanelMatrix w;
  float* y;
};

/// What a layer does to the heads of a pass between their projections and attention.
struct HeadsTask {
  const AttentionSpec* spec;
  const AttentionWeights* weights;
  float epsilon;  ///< of the norms
  bool rotated;   ///< by the stack's rotary positions `spec->rope`
  size_t cache_layer;
  size_t tokens;
};

/// The keys that the queries of a pass attend to.
struct AttendTask {
  const AttentionSpec* spec;
  size_t cache_layer;
  bool cross;                    ///< keys of each sequence's parent; otherwise of the sequence itself
  bool causal;                   ///< own keys up to the query's position; otherwise all of the sequence
  bool biased;                   ///< adds the stack's relative bias
  const float* sinks = nullptr;  ///< (heads); null: none
};

/// The cached rows that the queries of a pass attend to in latent attention.
struct LatentTask {
  const AttentionSpec* spec;
  const LatentWeights* weights;
  size_t cache_layer;
};

/// A layer's delta rule, whose states are in the cache.
struct DeltaTask {
  const DeltaSpec* spec;
  const DeltaWeights* weights;
  size_t cache_layer;
};

/// What gates are made of before they scale something.
enum class Gate : uint8_t { kSigmoid, kSilu };

/// A MoE layer that comes after the running one, and where its choices go.
struct LaterLayer {
  const FeedForwardWeights* weights;
  const RouterSpec* router;
  Dispatch* dispatch;
};

/// A resident expert: `block` lies in the device's memory.
struct ExpertBlock {
  uint16_t index;
  const std::byte* block;
};

/// The operations of a device on activations. Only implementations of this class know the device; the graph in
/// model/blocks is written once over it. Calls follow the order of a pass: start(), then any of the others, then
/// finish(). A row's bits depend only on its own inputs, never on other rows, on how many there are, or on which
/// experts were resident. Callers have checked all sizes, so the ops do not check them again.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual const Activations& activations() const = 0;

  /// Begins a pass of `stack`, whose rows are the tokens of `sequences` one after the other. Waits for work that an
  /// earlier pass left running when an error ended it. The spans must stay valid until finish().
  virtual void start(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens) = 0;
  /// hidden = rows `tokens` of the embedding, times `scale`.
  virtual void embed(const PanelMatrix& embedding, std::span<const int32_t> tokens, float scale) = 0;
  /// Each row of hidden (tokens, width) += `row` (width).
  virtual void add_row(const float* row, size_t tokens) = 0;
  /// hidden += the sines and cosines of the tokens' positions (tokens); nothing where a position is 0.
  virtual void add_positions(const Sinusoids& sinusoids, std::span<const uint32_t> positions) = 0;
  /// y (rows, width) = the norm of each row of x, of the kind that `weights` are of; y may be x.
  virtual void norm(const float* x, const NormWeights& weights, float epsilon, size_t rows, size_t width, float* y) = 0;
  /// All products of the same x (rows, k).
  virtual void linear(const float* x, size_t rows, std::span<const Product> products, Epilogue epilogue) = 0;
  /// x (count) clamped to ±limit.
  virtual void clip(float* x, size_t count, float limit) = 0;
  /// x (count) = 0.
  virtual void clear(float* x, size_t count) = 0;
  /// y += x (count).
  virtual void add(const float* x, size_t count, float* y) = 0;
  /// x (count) times `factor` (1), which lies in the device's memory.
  virtual void scale(float* x, size_t count, const float* factor) = 0;
  /// Turns the first columns of the heads of x by the stack's rotary positions `rope`. Heads lie `head_dim` floats
  /// apart, tokens heads · head_dim.
  virtual void rotate(float* x, size_t heads, size_t head_dim, size_t rope) = 0;
  /// Writes activations().keys and values into the cache, as those of the pass's tokens.
  virtual void write_kv(size_t cache_layer) = 0;
  /// Norms, clips and rotates activations().queries and keys, and writes keys and values into the cache. Keys and
  /// values of the activations may be lost. Without an override it is done part by part.
  virtual void prepare_heads(const HeadsTask& task);
  /// Attention; overwrites activations().queries with its outputs.
  virtual void attend(const AttendTask& task) = 0;
  /// Writes activations().keys, rows and rotated columns, into the cache, as those of the pass's tokens.
  virtual void write_latent(const LatentSpec& spec, size_t cache_layer) = 0;
  /// Causal latent attention of activations().queries; its outputs go to activations().values (tokens, output width).
  virtual void attend_latent(const LatentTask& task) = 0;
  /// The delta rule of a layer, and the convolutions before it, over activations().keys and values. Its answers go to
  /// values (tokens, value width); each sequence's state becomes that behind its tokens.
  virtual void delta(const DeltaTask& task) = 0;
  /// x (count) times the gates that `logits` (count) make, which are overwritten.
  virtual void gate(Gate kind, float* logits, float* x, size_t count) = 0;
  /// y (tokens, width) += the feed-forward network of normed, each row times its factor where there is an output gate:
  /// the sigmoid of one gate, or the second of the softmax of two.
  virtual void feed_forward(const FfnWeights& weights, Activation activation, size_t tokens, float* y) = 0;

  /// Routes normed, or the router's own norm of hidden, by the router: sets k, expert and alpha of `dispatch`, with
  /// the experts' factors, before capacity is applied. Blocks until the host has the choices. Unless null, `logits`
  /// (tokens, experts) in host memory receive the router's logits.
  virtual void choose(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
                      Dispatch& dispatch) = 0;
  /// Tells what choose_ahead() will ask for behind the next choose(), which then may wait for both.
  virtual void queue_ahead(std::span<const LaterLayer>, size_t) {}
  /// Routes hidden by the norms and the routers of layers that come after the running one, as choose() routes normed.
  /// Nothing but their choices changes. Call it before experts().
  virtual void choose_ahead(std::span<const LaterLayer> later, size_t tokens) = 0;
  /// Multiplies the factors of each token's choices by the first of the softmax of two output gates. Blocks as choose()
  /// does.
  virtual void scale_choices(const PanelMatrix& output_gate, size_t tokens, Dispatch& dispatch) = 0;
  /// Multiplies the factors of predicted choices by the experts' own, `factors` (experts) in the device's memory. The
  /// choices of choose() contain them.
  virtual void weigh_choices(const float* factors, size_t experts, Dispatch& dispatch) = 0;
  /// Passes the sorted choices of a layer to the device, before experts().
  virtual void take_choices(const Dispatch& dispatch, size_t tokens) = 0;
  /// Runs these experts of MoE layer `layer` on their rows of normed and keeps their outputs for combine(). The blocks
  /// may be overwritten once it returns: a device that computes asynchronously delays later copies into them.
  virtual void experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
                       const Dispatch& dispatch) = 0;
  /// Where experts() leaves its outputs (choices, width), in the order of Dispatch::order; null where that is not in
  /// host memory.
  virtual float* expert_outputs() = 0;
  /// Copies outputs (rows, width) of an expert, in host memory, page-locked, to where experts() leaves them, from
  /// position `first` of Dispatch::order on. They must stay unchanged until the device has been waited for.
  virtual void put_expert_outputs(const float* outputs, size_t first, size_t rows) = 0;
  /// y (tokens, width) += Σ alpha · output over each token's choices, by ascending expert.
  virtual void combine(const Dispatch& dispatch, size_t tokens, float* y) = 0;

  /// Passes without the host; null where the device has none.
  virtual DevicePasses* device_passes() { return nullptr; }

  /// `out` (rows.size(), head.n), in host memory: logits of `rows` of normed, at most kMaxLogitRows rows.
  virtual void logits(const PanelMatrix& head, std::span<const int32_t> rows, const HeadSpec& spec, float* out) = 0;
  /// `out` (tokens, width), in host memory: normed.
  virtual void states(size_t tokens, float* out) = 0;
  /// The same without waiting. A device other than the host fills `out`, page-locked, before choose() returns.
  virtual void queue_states(size_t tokens, float* out) = 0;
  /// Blocks until the whole pass has been computed. Throws device_failed.
  virtual void finish() = 0;
};

/// Rows of logits at a time, so that a large vocabulary does not need a large buffer.
inline constexpr size_t kMaxLogitRows = 64;

}  // namespace sida
