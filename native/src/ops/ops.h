#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "expert/expert_layout.h"
#include "model/dispatch.h"
#include "model/sequence_span.h"
#include "model/spec.h"
#include "ops/epilogue.h"
#include "ops/panels.h"

namespace sida {

/// Activations of one pass, in the device's memory: f32, row-major, rows without gaps.
struct Activations {
  float* hidden;   ///< (tokens, width): the residual stream
  float* normed;   ///< (tokens, width)
  float* queries;  ///< (tokens, query width); attention leaves its outputs here
  float* keys;     ///< (tokens, kv width)
  float* values;   ///< (tokens, kv width)
};

/// One product of the rows of x: y (rows, w.n) = epilogue(x (rows, w.k) · W).
struct Product {
  PanelMatrix w;
  float* y;
};

/// What the queries of a pass see.
struct AttendTask {
  const AttentionSpec* spec;
  size_t cache_layer;
  bool cross;   ///< the keys of each sequence's parent; otherwise its own
  bool causal;  ///< own keys up to the query's position; otherwise all of the sequence
  bool biased;  ///< adds the stack's relative bias
};

/// One expert at hand: `block` lies in the device's memory.
struct ExpertBlock {
  uint16_t index;
  const std::byte* block;
};

/// What a device does with activations: the only code that knows the device. The graph over it is written once, in
/// model/blocks. Calls are in the order of a pass: start(), then any of the others, then finish(). A row's bits
/// depend on its own inputs alone, never on the other rows, on how many there are, or on which experts were resident.
/// Sizes were checked above: nothing is checked here twice.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual const Activations& activations() const = 0;

  /// Begins a pass of `stack`'s tokens: rows of `sequences` one after the other. Waits for what an earlier pass that
  /// an error ended may have left running. The spans stay until finish().
  virtual void start(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens) = 0;
  /// hidden = rows `tokens` of the embedding.
  virtual void embed(const PanelMatrix& embedding, std::span<const int32_t> tokens) = 0;
  /// y (rows, width) = x / sqrt(mean(x²) + epsilon) · weight; y may be x.
  virtual void norm(const float* x, const float* weight, size_t rows, size_t width, float* y) = 0;
  /// All products of the same x (rows, k).
  virtual void linear(const float* x, size_t rows, std::span<const Product> products, Epilogue epilogue) = 0;
  /// x (count) clamped to ±limit.
  virtual void clip(float* x, size_t count, float limit) = 0;
  /// Turns the heads of x (tokens, heads · head_dim) by the stack's rotary positions.
  virtual void rotate(float* x, size_t heads, size_t head_dim) = 0;
  /// Writes activations().keys and values as those of the pass's tokens.
  virtual void write_kv(size_t cache_layer) = 0;
  /// queries become the attention's outputs.
  virtual void attend(const AttendTask& task) = 0;
  /// hidden += the feed-forward network of normed. `gate` has null data where the activation is not gated.
  virtual void feed_forward(const PanelMatrix& gate, const PanelMatrix& up, const PanelMatrix& down,
                            Activation activation, size_t tokens) = 0;

  /// Routes normed by the router: sets `dispatch` (k, expert, alpha), before capacity. Blocks until the choices are
  /// known to the host. `logits` (tokens, experts) are wanted on the host, or null.
  virtual void choose(const PanelMatrix& router, const RouterSpec& spec, size_t tokens, float* logits,
                      Dispatch& dispatch) = 0;
  /// Tells the device the sorted choices of a layer, before experts().
  virtual void take_choices(const Dispatch& dispatch, size_t tokens) = 0;
  /// Runs these experts on their rows of normed; their outputs wait for combine(). The blocks may be overwritten once
  /// it returns (a device that computes behind the host holds back later copies by itself).
  virtual void experts(const ExpertLayout& layout, std::span<const ExpertBlock> experts, const Dispatch& dispatch) = 0;
  /// hidden += Σ alpha · output over each token's choices, by ascending expert.
  virtual void combine(const Dispatch& dispatch, size_t tokens) = 0;

  /// `out` (rows.size(), head.n), in host memory: logits of `rows` of normed times `scale`. At most kMaxLogitRows rows.
  virtual void logits(const PanelMatrix& head, std::span<const int32_t> rows, float scale, float* out) = 0;
  /// `out` (tokens, width), in host memory: normed.
  virtual void states(size_t tokens, float* out) = 0;
  /// Blocks until all of the pass has been computed. Throws device_failed.
  virtual void finish() = 0;
};

/// Rows of logits at a time: bounds what a large vocabulary makes them take.
inline constexpr size_t kMaxLogitRows = 64;

}  // namespace sida
