#include "spec/families/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "spec/families/config_limits.h"
#include "spec/families/rope_config.h"

namespace sida {
namespace {

size_t read_head_dim(const ConfigReader& reader, size_t width, size_t heads, int fallback, HeadDim kind) {
  const size_t derived = width / heads;
  const bool named = reader.field("head_dim") || (fallback > 0 && !reader.is_null("head_dim"));
  if (kind == HeadDim::kOwn && named) {
    const size_t own = read_count(reader, "head_dim", kMaxWidth, fallback);
    if (own % 2 == 0) return own;
    throw reader.fault("head_dim", "an even number", std::to_string(own), "pairs of columns are rotated");
  }
  if ((kind == HeadDim::kDerived && derived * heads != width) || derived % 2 != 0) {
    throw reader.fault("num_attention_heads",
                       "heads of a whole, even number of the " + std::to_string(width) + " columns of \"hidden_size\"",
                       std::to_string(heads), "");
  }
  reader.integer("head_dim", static_cast<int>(derived), static_cast<int>(derived), static_cast<int>(derived));
  return derived;
}

void check_each_layer(const char* name, const ConfigReader& reader, size_t count, size_t layers) {
  if (count == layers) return;
  throw reader.fault(name, "one for each of the " + std::to_string(layers) + " layers", std::to_string(count), "");
}

}  // namespace

size_t read_count(const ConfigReader& reader, const char* name, int most, int fallback) {
  return static_cast<size_t>(reader.integer(name, 1, most, fallback));
}

ModelSpec read_decoder(const ConfigReader& reader, const DecoderDefaults& defaults) {
  ModelSpec spec;
  spec.vocab = read_count(reader, "vocab_size", kMaxVocab, defaults.vocab);
  spec.width = read_count(reader, "hidden_size", kMaxWidth, defaults.width);
  spec.norm_epsilon = static_cast<float>(reader.real("rms_norm_eps", 0, 1, defaults.epsilon));
  spec.context = read_count(reader, "max_position_embeddings", kMaxCount, defaults.context);
  const char* extra = reader.alias({"num_nextn_predict_layers", "num_mtp_layers"});
  spec.extra_layers = static_cast<size_t>(reader.integer(extra, 0, kMaxLayers, defaults.extra_layers));
  spec.head.tied = reader.boolean("tie_word_embeddings", false);
  spec.tokens.end = reader.tokens("eos_token_id", spec.vocab, defaults.end);
  // Published configs write -1 for no token.
  const auto pad = reader.field("pad_token_id");
  if (!pad || pad->try_i64() != -1) spec.tokens.pad = reader.token("pad_token_id", spec.vocab, defaults.pad);
  return spec;
}

AttentionSpec read_heads(const ConfigReader& reader, size_t width, const DecoderDefaults& defaults, HeadDim head_dim) {
  AttentionSpec attention;
  attention.heads = read_count(reader, "num_attention_heads", static_cast<int>(width), defaults.heads);
  attention.head_dim = read_head_dim(reader, width, attention.heads, defaults.head_dim, head_dim);
  const int heads = static_cast<int>(attention.heads);
  const bool all = defaults.kv_heads == 0 || reader.is_null("num_key_value_heads");
  attention.kv_heads =
      read_count(reader, "num_key_value_heads", heads, all ? heads : std::min(heads, defaults.kv_heads));
  if (attention.heads % attention.kv_heads != 0) {
    throw reader.fault("num_key_value_heads", "a divisor of the " + std::to_string(heads) + " heads",
                       std::to_string(attention.kv_heads), "");
  }
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention.head_dim)));
  return attention;
}

MoeSpec read_moe(const ConfigReader& reader, const MoeDefaults& defaults) {
  reader.require_text("hidden_act", "silu", "other activations are not supported");
  MoeSpec moe;
  const char* experts = reader.alias({"num_experts", "num_local_experts", "n_routed_experts"});
  moe.experts = read_count(reader, experts, kMaxExperts, defaults.experts);
  moe.expert = {read_count(reader, defaults.width_field, kMaxFfnWidth, defaults.width), Activation::kSwiglu};
  const int most = std::min(kMaxTopK, static_cast<int>(moe.experts));
  moe.router.top_k = read_count(reader, "num_experts_per_tok", most, defaults.top_k);
  if (moe.router.top_k == 0 || moe.router.top_k > moe.experts) {
    throw reader.fault("num_experts_per_tok", "a whole number from 1 to " + std::to_string(most),
                       defaults.top_k == 0 ? "none" : "none, which is " + std::to_string(defaults.top_k), "");
  }
  return moe;
}

StackSpec decoder_stack(const ConfigReader& reader, const DecoderDefaults& defaults, const LayerSpec& layer) {
  const RopeDefaults rope{defaults.theta, defaults.context, defaults.partial_rotary, defaults.rope};
  StackSpec stack{"decoder", true, read_rope(reader, layer.self.head_dim, rope), {}};
  stack.layers.assign(read_count(reader, "num_hidden_layers", kMaxLayers, defaults.layers), layer);
  return stack;
}

void make_first_layers_dense(const ConfigReader& reader, int first, int width, StackSpec& stack) {
  const FfnSpec dense{read_count(reader, "intermediate_size", kMaxFfnWidth, width), Activation::kSwiglu};
  const auto count = static_cast<size_t>(reader.integer("first_k_dense_replace", 0, kMaxLayers, first));
  const auto types = reader.choices("mlp_layer_types", {"sparse", "dense"}, kMaxLayers);
  if (types) check_each_layer("mlp_layer_types", reader, types->size(), stack.layers.size());
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    if (types ? (*types)[layer] == 1 : layer < count) stack.layers[layer].feed_forward = dense;
  }
}

std::optional<std::vector<bool>> read_layer_types(const ConfigReader& reader, size_t layers) {
  const auto types = reader.choices("layer_types", {"full_attention", "sliding_attention"}, kMaxLayers);
  if (!types) return std::nullopt;
  check_each_layer("layer_types", reader, types->size(), layers);
  std::vector<bool> windowed;
  for (const size_t type : *types) windowed.push_back(type == 1);
  return windowed;
}

}  // namespace sida
