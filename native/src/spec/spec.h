#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "spec/activation.h"

namespace sida {

// A model as data: the parts of its graph, without files, devices or passes. A family (model/families) reads it from a
// config, model/blocks runs it. Sizes are limited such that the bytes of all tensors together fit 63 bits.

/// Norms over the hidden states.
enum class NormKind : uint8_t {
  kRms,    ///< x / sqrt(mean(x²) + epsilon) · weight
  kLayer,  ///< (x - mean(x)) / sqrt(variance(x) + epsilon) · weight + bias
};

/// RMS norms over queries and keys before they are rotated.
enum class QkNorm : uint8_t {
  kNone,
  kRow,   ///< over all heads of a token together
  kHead,  ///< over each head
};

/// What the values of a head are.
enum class Values : uint8_t {
  kProjected,
  kNormed,      ///< the RMS norm of what is projected, without a weight
  kNormedKeys,  ///< that of the projected keys, before their own norm; values have no projection
};

/// Multi-head latent attention (arXiv 2405.04434, section 2.1): keys and values of all heads are made from
/// one latent row, and from one row of rotated columns that all heads share. Both rows are cached, not keys and values.
/// The projections from the latent row are applied to queries and outputs instead, which is the same product.
struct LatentSpec {
  size_t query_rank = 0;       ///< columns between the two query projections; 0: there is one projection
  size_t rank = 0;             ///< columns of the latent row
  size_t rotary = 0;           ///< columns of the rotated row, the last ones of each head's query
  size_t value_dim = 0;        ///< columns of a head's output
  float norm_epsilon = 1e-6f;  ///< of the norms over latent rows and compressed queries

  size_t row() const { return rank + rotary; }
};

struct AttentionSpec {
  size_t heads = 0;
  size_t kv_heads = 0;  ///< divides `heads`: heads / kv_heads query heads share one key and value head
  size_t head_dim = 0;  ///< of queries and keys; of values too where attention is not latent
  float scale = 1;      ///< of the scores
  QkNorm qk_norm = QkNorm::kNone;
  Values values = Values::kProjected;
  size_t rope = 0;  ///< of StackSpec::rope()
  /// Queries, keys and values have biases; where attention is latent, compressed queries, latent and rotated rows.
  bool biased = false;
  bool output_biased = false;  ///< the output projection has a bias
  std::optional<float> clip;   ///< queries, keys and values are clamped to ±clip
  /// A query sees this many keys, its own the last of them. Nothing: all before it.
  std::optional<size_t> window;
  bool sinks = false;  ///< each head has a learned score that takes part in its softmax and has no value
  bool gated = false;  ///< the output is multiplied by the sigmoid of a projection of the input
  std::optional<LatentSpec> latent;

  size_t query_width() const { return heads * head_dim; }
  /// Columns of keys; of values too where attention is not latent.
  size_t kv_width() const { return latent ? latent->row() : kv_heads * head_dim; }
  size_t output_width() const { return latent ? heads * latent->value_dim : query_width(); }
};

/// A gated delta rule (arXiv 2412.06464) in place of attention. Queries, keys and values pass a causal convolution of
/// each column and SiLU; queries and keys of a head then have length 1, queries over √key_dim. For each token a value
/// head's state S (key_dim, value_dim) decays, S ← αS, learns, S ← S + k ⊗ β(v - Sᵀk), and answers Sᵀq. The answers are
/// normed by head and multiplied by the SiLU of a projection of the input. β is the sigmoid of a projection of the
/// input, α = exp(rate · softplus(projection + bias)) with rates below 0.
struct DeltaSpec {
  static constexpr size_t kMostTaps = 16;

  size_t key_heads = 0;
  size_t value_heads = 0;  ///< a multiple of `key_heads`
  size_t key_dim = 0;
  size_t value_dim = 0;
  size_t taps = 0;  ///< of the convolutions: inputs that an output sees, its own the last of them
  /// Value head h belongs to key head h % key_heads; otherwise to h / (value_heads / key_heads).
  bool tiled = false;

  size_t key_width() const { return key_heads * key_dim; }
  size_t value_width() const { return value_heads * value_dim; }
  /// Columns of a row of a state, in whole vectors of 16; what they add to value_dim is 0.
  size_t state_stride() const { return (value_dim + 15) / 16 * 16; }
  /// What a sequence keeps of a layer, in f32: the last taps - 1 inputs of the convolutions of queries, keys and
  /// values, one after the other, then the states (value_heads, key_dim, state_stride).
  size_t kept_inputs() const { return (taps - 1) * (2 * key_width() + value_width()); }
  size_t state_floats() const { return kept_inputs() + value_heads * key_dim * state_stride(); }
};

/// Is added to a sum of squares before a query or key is divided by its root.
inline constexpr float kUnitEpsilon = 1e-6f;

/// T5's bias of a score by the distance of key and query, one table (buckets, heads) a stack.
struct RelativeBias {
  int buckets = 32;
  int max_distance = 128;
};

/// Rotary positions: pair j of a head's columns turns by position · inverse_frequencies[j].
struct Rope {
  std::vector<float> inverse_frequencies;  ///< (rotary width / 2)
  float magnitude = 1;                     ///< of cosines and sines
  bool adjacent = false;  ///< pair j is columns 2j and 2j + 1; otherwise column j of the first and of the second half

  size_t width() const { return 2 * inverse_frequencies.size(); }
};

/// Positions that are added to the embeddings: column j gets sin(p · frequencies[j]), column j of the second half
/// cos(p · frequencies[j]). A token's position p is `pad` plus the number of tokens up to it that are not `pad`.
/// `pad` itself has no position.
struct Sinusoids {
  std::vector<float> frequencies;  ///< (width / 2)
  int32_t pad = 0;                 ///< a token id
};

using Positions = std::variant<RelativeBias, Rope, Sinusoids>;

struct FfnSpec {
  size_t width = 0;  ///< of its hidden layer
  Activation activation = Activation::kRelu;
  bool biased = false;  ///< all its matrices have biases
};

/// How a router's logits become the experts' scores, in float32.
enum class RouterScores : uint8_t {
  kSoftmax,
  kSigmoid,
  kSoftmaxOfChosen,  ///< the scores are the logits; a softmax over the chosen ones makes their factors
};

inline constexpr size_t kMaxExpertGroups = 256;

/// Experts in groups of equal size, of which only the best `kept` take part in a token's choice. A group's score is the
/// sum of its `best` largest scores.
struct ExpertGroups {
  size_t count = 1;
  size_t kept = 1;
  size_t best = 1;
};

/// Chooses the `top_k` experts of the largest scores, the first of equal ones. A chosen expert's output is scaled by
/// its score times `scale`.
struct RouterSpec {
  static constexpr size_t kNoCapacity = std::numeric_limits<size_t>::max();

  size_t top_k = 1;
  RouterScores scores = RouterScores::kSoftmax;
  bool biased = false;      ///< the logits have a bias
  bool corrected = false;   ///< a learned correction is added to the scores for the choice, not for the factors
  bool normalized = false;  ///< the chosen experts' scores are divided by their sum
  float sum_floor = 0;      ///< is added to that sum, which may be 0 where scores are not those of a softmax
  double scale = 1;
  /// The router reads the RMS norm of the hidden states, times a learned row and this; nothing: the experts' input.
  std::optional<float> input_scale;
  bool weighted = false;  ///< a chosen expert's output is also scaled by a learned number of the expert
  ExpertGroups groups;
  /// Most tokens of one sequence that an expert takes in one pass, in token order. Tokens beyond it add nothing.
  size_t capacity = kNoCapacity;
};

/// How the output of a shared expert is scaled.
enum class SharedGate : uint8_t {
  kNone,
  kSigmoid,  ///< by sigmoid(gate · x)
  /// By c1, and the sum of the chosen experts' outputs by c0, (c0, c1) = softmax(gate · x + bias): the residual experts
  /// of PR-MoE (arXiv 2201.05596, section 4.1).
  kSoftmax,
};

/// An expert that every token uses, beside those that the router chooses. It is part of the dense weights.
struct SharedExpertSpec {
  FfnSpec ffn;
  SharedGate gate = SharedGate::kNone;
};

struct MoeSpec {
  size_t experts = 0;
  FfnSpec expert;
  RouterSpec router;
  std::optional<SharedExpertSpec> shared;
  bool biased = false;  ///< one bias is added to the sum of the chosen experts' outputs
  /// The shared expert and the others have norms of their own: y = norm(shared(x)) + norm(experts(norm(h))) of the
  /// hidden states h and x = norm(h). The layer has post-norms.
  bool branches = false;
};

/// Pre-norm: h = x + self(norm(x)); then, where there is cross-attention, h += cross(norm(h)); y = h + ffn(norm(h)).
struct LayerSpec {
  AttentionSpec self;
  std::optional<AttentionSpec> cross;  ///< over the parent sequence's keys
  std::variant<FfnSpec, MoeSpec> feed_forward;
  std::optional<DeltaSpec> delta = {};  ///< in place of `self`
  bool post_norms = false;              ///< h = x + norm(self(norm(x))), y = h + norm(ffn(norm(h)))
  bool scaled = false;                  ///< y is multiplied by a learned number

  const MoeSpec* moe() const { return std::get_if<MoeSpec>(&feed_forward); }
};

struct StackSpec {
  std::string name;  ///< "encoder" or "decoder"
  bool causal = true;
  Positions positions;
  std::vector<LayerSpec> layers;
  std::vector<Rope> more_ropes = {};  ///< rotary positions of layers that do not have those of `positions`

  size_t moe_layers() const;
  /// That of the first layer that has attention.
  const AttentionSpec& attention() const;
  /// Kinds of rotary positions: that of `positions`, then `more_ropes`.
  size_t ropes() const { return std::holds_alternative<Rope>(positions) ? 1 + more_ropes.size() : 0; }
  const Rope& rope(size_t at) const { return at == 0 ? std::get<Rope>(positions) : more_ropes[at - 1]; }
};

struct HeadSpec {
  bool present = true;            ///< false: an encoder alone, whose final states are the answer
  bool tied = false;              ///< to the embedding, which all stacks share then
  float scale = 1;                ///< of the states before the head
  std::optional<float> cap = {};  ///< a logit becomes cap · tanh(logit / cap)
};

struct TokenSpec {
  std::optional<int32_t> start;  ///< the decoder's first token, where an encoder comes before it
  std::vector<int32_t> end;      ///< each ends a generation; empty: only the length limit does
  std::optional<int32_t> pad;
};

/// A stack's index is its place in `stacks`: an encoder comes before the decoder that attends across to it, and the
/// last stack has the head, if there is one.
struct ModelSpec {
  std::string family;  ///< model_type of its config
  size_t vocab = 0;
  size_t width = 0;               ///< of the hidden states
  float embedding_scale = 1;      ///< of the embeddings, before positions are added
  bool embedding_biased = false;  ///< one row is added to all embeddings
  /// Each sum goes on from the norm: h = norm(x), y = h + f(h). Layers of BERT, whose norms come after their sums, do
  /// so, and the norm of the embeddings is that of the first layer.
  bool sums_from_norms = false;
  NormKind norm = NormKind::kRms;
  float norm_epsilon = 1e-6f;  ///< of all norms
  size_t context = 0;          ///< positions that the model was made for; 0: not said
  std::vector<StackSpec> stacks;
  size_t extra_layers = 0;  ///< of multi-token prediction, behind the last layer of a checkpoint; they are not read
  HeadSpec head;
  TokenSpec tokens;

  const StackSpec& last() const { return stacks.back(); }
  /// Columns of the logits; 0 where there is no head.
  size_t logit_columns() const { return head.present ? vocab : 0; }
  /// That of the MoE layer with the most experts; null: none. MoE layers differ in their numbers of experts alone.
  const MoeSpec* moe() const;
  size_t experts() const { return moe() == nullptr ? 0 : moe()->experts; }
  size_t top_k() const { return moe() == nullptr ? 1 : moe()->router.top_k; }
  size_t moe_layer_count() const;
  /// Experts of each MoE layer, in flat order.
  std::vector<size_t> layer_experts() const;
  /// The first flat MoE layer of a stack.
  size_t first_moe_layer(size_t stack) const;
  /// MoE layers in flat order, stacks one after the other: "encoder.1", "encoder.3", …, "decoder.1", …
  std::vector<std::string> moe_layers() const;
};

}  // namespace sida
