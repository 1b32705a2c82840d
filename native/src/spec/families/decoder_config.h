#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "spec/config_reader.h"
#include "spec/spec.h"

namespace sida {

// What the configs of decoder-only families have in common.

/// transformers' defaults of a family.
struct DecoderDefaults {
  int vocab, width, layers, heads;
  int kv_heads;  ///< 0: as many as heads
  int context;
  double epsilon;
  double theta = 10000;  ///< of rope_theta
  /// The share of a head that is rotated, where a config may give one.
  std::optional<double> partial_rotary = {};
  std::vector<int32_t> end = {};
  std::optional<int32_t> pad = {};
  /// Of head_dim, where a config may give one; 0: hidden_size / num_attention_heads.
  int head_dim = 0;
  /// The JSON of rope_parameters' default; null: positions are not scaled.
  const char* rope = nullptr;
  int extra_layers = 0;  ///< of multi-token prediction
};

/// A whole number from 1 to `most`.
size_t read_count(const ConfigReader& reader, const char* name, int most, int fallback);

/// All of a spec but its stack.
ModelSpec read_decoder(const ConfigReader& reader, const DecoderDefaults& defaults);

/// Whether a config may give heads another width than hidden_size / num_attention_heads. Where it may,
/// that quotient may also leave a remainder.
enum class HeadDim : uint8_t { kDerived, kOwn };

/// Heads and their scale.
AttentionSpec read_heads(const ConfigReader& reader, size_t width, const DecoderDefaults& defaults, HeadDim head_dim);

struct MoeDefaults {
  int experts;
  int top_k;  ///< 0: the config must say
  const char* width_field;
  int width;
};

/// Experts of SwiGLU behind a softmax router. What else the router does is left to the family.
MoeSpec read_moe(const ConfigReader& reader, const MoeDefaults& defaults);

/// The first layers of a stack, as many as `first_k_dense_replace` says, or those that `mlp_layer_types` names, become
/// dense, `width` the default of intermediate_size.
void make_first_layers_dense(const ConfigReader& reader, int first, int width, StackSpec& stack);

/// A stack named "decoder" whose layers are all `layer`.
StackSpec decoder_stack(const ConfigReader& reader, const DecoderDefaults& defaults, const LayerSpec& layer);

/// The layers that `layer_types` names "sliding_attention"; all others must be "full_attention". Nothing where the
/// config has no such list.
std::optional<std::vector<bool>> read_layer_types(const ConfigReader& reader, size_t layers);

}  // namespace sida
