#include <algorithm>
#include <cmath>
#include <string>

#include "spec/families/config_limits.h"
#include "spec/families/decoder_config.h"
#include "spec/families/gemma4/gemma4.h"
#include "spec/families/rope_config.h"

namespace sida {
namespace {

constexpr size_t kLayersPerFull = 6;

/// What a kind of layers rotates by where a config does not say it.
struct RopeOf {
  const char* kind;
  double theta;
  double share;  ///< of a head's pairs that are turned, where the config has no rope_parameters at all
};

Rope read_gemma4_rope(const ConfigReader& reader, const RopeOf& of, size_t head_dim) {
  const auto all = reader.object("rope_parameters");
  const auto rope = all ? all->object(of.kind) : std::nullopt;
  double theta = of.theta, share = of.share, factor = 1;
  if (rope) {
    const bool part = of.share < 1;
    const size_t type = part ? rope->choice("rope_type", {"default", "proportional"}).value_or(0)
                             : rope->choice("rope_type", {"default"}).value_or(0);
    theta = rope->real("rope_theta", 1, 1e12, of.theta);
    share = rope->real("partial_rotary_factor", type == 1 ? 0 : 1, 1, 1);
    if (type == 1) factor = rope->real("factor", 1, 1e6, 1);
  }
  Rope positions{rope_frequencies(theta, head_dim)};
  // Pairs beyond the share keep their place among those that are turned.
  const auto turned = static_cast<size_t>(share * static_cast<double>(head_dim) / 2);
  for (size_t j = 0; j < positions.inverse_frequencies.size(); ++j) {
    float& inverse = positions.inverse_frequencies[j];
    inverse = j < turned ? inverse / static_cast<float>(factor) : 0;
  }
  return positions;
}

size_t named_count(const ConfigReader& reader, const char* name, int most) {
  const size_t count = read_count(reader, name, most, 0);
  if (count > 0) return count;
  throw reader.fault(name, "a whole number from 1 to " + std::to_string(most), "none", "");
}

MoeSpec read_gemma4_experts(const ConfigReader& reader) {
  reader.require_text("hidden_activation", "gelu_pytorch_tanh", "other activations are not supported");
  if (!reader.boolean("enable_moe_block", false)) {
    const auto found = reader.field("enable_moe_block");
    throw reader.fault("enable_moe_block", "true", found ? "false" : "none",
                       "models without experts are not supported");
  }
  MoeSpec moe;
  moe.experts = named_count(reader, "num_experts", kMaxExperts);
  moe.expert = {named_count(reader, "moe_intermediate_size", kMaxFfnWidth), Activation::kGeglu};
  const int most = std::min(kMaxTopK, static_cast<int>(moe.experts));
  moe.router.top_k = named_count(reader, reader.alias({"top_k_experts", "num_experts_per_tok"}), most);
  moe.router.normalized = true;
  moe.router.weighted = true;
  const size_t dense = read_count(reader, "intermediate_size", kMaxFfnWidth, 9216);
  moe.shared = SharedExpertSpec{{dense, Activation::kGeglu}};
  moe.branches = true;
  return moe;
}

/// Parts of the family that its models with experts do not have.
void refuse_other_parts(const ConfigReader& reader) {
  constexpr int kPerLayer = 256;
  if (const int columns = reader.integer("hidden_size_per_layer_input", 0, kMaxWidth, kPerLayer); columns != 0) {
    const bool given = reader.field("hidden_size_per_layer_input").has_value();
    if (given || !reader.is_null("hidden_size_per_layer_input")) {
      throw reader.fault("hidden_size_per_layer_input", "0",
                         given ? std::to_string(columns) : "none, which is " + std::to_string(kPerLayer),
                         "inputs of single layers are not supported");
    }
  }
  reader.integer("num_kv_shared_layers", 0, 0, 0);
  reader.require_false("attention_bias", "biases of attention are not supported");
  reader.choice("use_bidirectional_attention", {"vision"});
  if (const auto found = reader.field("per_layer_config")) {
    throw reader.fault("per_layer_config", "none", found->describe(), "layers differ by their type alone");
  }
}

/// Heads of layers without a window.
AttentionSpec read_full_attention(const ConfigReader& reader, const AttentionSpec& windowed) {
  AttentionSpec full = windowed;
  full.window.reset();
  full.rope = 1;
  full.head_dim = read_count(reader, "global_head_dim", kMaxWidth, 512);
  if (full.head_dim % 2 != 0) {
    throw reader.fault("global_head_dim", "an even number", std::to_string(full.head_dim),
                       "pairs of columns are rotated");
  }
  if (!reader.boolean("attention_k_eq_v", false)) return full;
  full.values = Values::kNormedKeys;
  const int heads = static_cast<int>(full.heads);
  full.kv_heads = read_count(reader, "num_global_key_value_heads", heads, static_cast<int>(full.kv_heads));
  if (full.heads % full.kv_heads == 0) return full;
  throw reader.fault("num_global_key_value_heads", "a divisor of the " + std::to_string(heads) + " heads",
                     std::to_string(full.kv_heads), "");
}

}  // namespace

ModelSpec read_gemma4_config(const ConfigReader& whole) {
  const auto text = whole.object("text_config");
  const ConfigReader& reader = text ? *text : whole;
  const DecoderDefaults defaults{.vocab = 262144,
                                 .width = 2304,
                                 .layers = 30,
                                 .heads = 8,
                                 .kv_heads = 4,
                                 .context = 131072,
                                 .epsilon = 1e-6,
                                 .end = {1},
                                 .pad = 0,
                                 .head_dim = 256};
  ModelSpec spec = read_decoder(reader, defaults);
  spec.head.tied = reader.boolean("tie_word_embeddings", true);
  if (reader.field("final_logit_softcapping")) {
    spec.head.cap = static_cast<float>(reader.real("final_logit_softcapping", 1e-3, 1e6, 0));
  }
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  if (text && whole.field("eos_token_id")) spec.tokens.end = whole.tokens("eos_token_id", spec.vocab, {});
  refuse_other_parts(reader);

  LayerSpec layer{read_heads(reader, spec.width, defaults, HeadDim::kOwn),
                  std::nullopt,
                  read_gemma4_experts(reader),
                  std::nullopt,
                  true,
                  true};
  auto& router = std::get<MoeSpec>(layer.feed_forward).router;
  router.input_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(spec.width)));
  layer.self.scale = 1;
  layer.self.qk_norm = QkNorm::kHead;
  layer.self.values = Values::kNormed;
  layer.self.window = read_count(reader, "sliding_window", kMaxCount, 512);
  const AttentionSpec full = read_full_attention(reader, layer.self);

  StackSpec stack{"decoder", true, read_gemma4_rope(reader, {"sliding_attention", 1e4, 1}, layer.self.head_dim), {}};
  stack.more_ropes = {read_gemma4_rope(reader, {"full_attention", 1e6, 0.25}, full.head_dim)};
  stack.layers.assign(read_count(reader, "num_hidden_layers", kMaxLayers, defaults.layers), layer);
  const auto types = read_layer_types(reader, stack.layers.size());
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    // transformers gives the last layer no window, whatever its type.
    const bool windowed = types ? (*types)[i] : (i + 1) % kLayersPerFull != 0;
    if (!windowed || i + 1 == stack.layers.size()) stack.layers[i].self = full;
  }
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
