#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ops/activation.h"

namespace sida {

// A model as data: the parts of its graph, without files, devices or passes. A family (model/families) reads it from a
// config, model/blocks runs it. Sizes are limited such that the bytes of all tensors together fit 63 bits.

/// Norms over queries and keys before they are rotated.
enum class QkNorm : uint8_t {
  kNone,
  kRow,   ///< over all heads of a token together
  kHead,  ///< over each head
};

struct AttentionSpec {
  size_t heads = 0;
  size_t kv_heads = 0;  ///< divides `heads`: heads / kv_heads query heads share one key and value head
  size_t head_dim = 0;
  float scale = 1;  ///< of the scores
  QkNorm qk_norm = QkNorm::kNone;
  std::optional<float> clip;  ///< queries, keys and values are clamped to ±clip

  size_t query_width() const { return heads * head_dim; }
  size_t kv_width() const { return kv_heads * head_dim; }
};

/// T5's bias of a score by the distance of key and query, one table (buckets, heads) a stack.
struct RelativeBias {
  int buckets = 32;
  int max_distance = 128;
};

/// Rotary positions: column j of a head's first half and column j of its second half turn together by
/// position · inverse_frequencies[j].
struct Rope {
  std::vector<float> inverse_frequencies;  ///< (rotary width / 2)
  float magnitude = 1;                     ///< of cosines and sines

  size_t width() const { return 2 * inverse_frequencies.size(); }
};

using Positions = std::variant<RelativeBias, Rope>;

struct FfnSpec {
  size_t width = 0;  ///< of its hidden layer
  Activation activation = Activation::kRelu;
};

/// Softmax over the router's logits in float32, then the `top_k` largest, the first of equal ones; each chosen
/// expert's output is scaled by its probability.
struct RouterSpec {
  static constexpr size_t kNoCapacity = std::numeric_limits<size_t>::max();

  size_t top_k = 1;
  bool normalized = false;  ///< the chosen experts' probabilities are divided by their sum
  /// Most tokens of one sequence that an expert takes in one pass, in token order. Tokens beyond it add nothing.
  size_t capacity = kNoCapacity;
};

struct MoeSpec {
  size_t experts = 0;
  FfnSpec expert;
  RouterSpec router;
};

/// Pre-norm: h = x + self(norm(x)); then, where there is cross-attention, h += cross(norm(h)); y = h + ffn(norm(h)).
struct LayerSpec {
  AttentionSpec self;
  std::optional<AttentionSpec> cross;  ///< over the parent sequence's keys
  std::variant<FfnSpec, MoeSpec> feed_forward;

  const MoeSpec* moe() const { return std::get_if<MoeSpec>(&feed_forward); }
};

struct StackSpec {
  std::string name;  ///< "encoder" or "decoder"
  bool causal = true;
  Positions positions;
  std::vector<LayerSpec> layers;

  size_t moe_layers() const;
};

struct HeadSpec {
  bool tied = false;  ///< to the embedding, which all stacks share then
  float scale = 1;    ///< of the states before the head
};

struct TokenSpec {
  std::optional<int32_t> start;  ///< the decoder's first token, where an encoder comes before it
  std::vector<int32_t> end;      ///< each ends a generation; empty: only the length limit does
  std::optional<int32_t> pad;
};

/// A stack's index is its place in `stacks`: an encoder comes before the decoder that attends across to it, and the
/// last stack has the head.
struct ModelSpec {
  std::string family;  ///< model_type of its config
  size_t vocab = 0;
  size_t width = 0;           ///< of the hidden states
  float norm_epsilon = 1e-6f;  ///< of all RMS norms
  size_t context = 0;          ///< positions that the model was made for; 0: not said
  std::vector<StackSpec> stacks;
  HeadSpec head;
  TokenSpec tokens;

  const StackSpec& last() const { return stacks.back(); }
  /// The first MoE layer's spec; null where the model has none. All MoE layers of a model have the same sizes.
  const MoeSpec* moe() const;
  size_t experts() const { return moe() == nullptr ? 0 : moe()->experts; }
  size_t top_k() const { return moe() == nullptr ? 1 : moe()->router.top_k; }
  size_t moe_layer_count() const;
  /// The first flat MoE layer of a stack.
  size_t first_moe_layer(size_t stack) const;
  /// MoE layers in flat order, stacks one after the other: "encoder.1", "encoder.3", …, "decoder.1", …
  std::vector<std::string> moe_layers() const;
};

}  // namespace sida
