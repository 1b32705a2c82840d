#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/config_reader.h"
#include "spec/families/config_limits.h"
#include "spec/families/switch_transformers/switch_transformers.h"

namespace sida {
namespace {

void check_switch_kind(const ConfigReader& reader) {
  reader.require_text("dense_act_fn", "relu", "gated feed-forward layers are not supported");
  reader.require_text("router_dtype", "float32", "routers run in float32");
  reader.require_false("router_bias", "a bias in the router is not supported");
  reader.require_false("router_ignore_padding_tokens", "padding takes part in routing");
}

AttentionSpec read_attention(const ConfigReader& reader) {
  AttentionSpec attention;
  const int head_dim = reader.integer("d_kv", 1, kMaxWidth, 64);
  attention.head_dim = static_cast<size_t>(head_dim);
  attention.heads = static_cast<size_t>(reader.integer("num_heads", 1, kMaxWidth / head_dim, 12));
  attention.kv_heads = attention.heads;
  return attention;
}

RelativeBias read_positions(const ConfigReader& reader) {
  RelativeBias bias;
  // The encoder halves the buckets by sign, and each half again into exact and logarithmic ones.
  bias.buckets = reader.integer("relative_attention_num_buckets", 4, 4096, bias.buckets);
  // The buckets' formula divides by log(max_distance / exact buckets), which must not be 0.
  const int least = bias.buckets / 2 + 1;
  bias.max_distance = reader.integer("relative_attention_max_distance", least, kMaxCount, bias.max_distance);
  return bias;
}

/// Experts of each MoE layer, the encoder's first: one number for all, or as in DeepSpeed's PR-MoE a list.
std::vector<int> read_experts(const ConfigReader& reader, size_t layers) {
  if (const auto field = reader.field("num_experts"); !field || !field->is_array()) {
    return std::vector<int>(layers, reader.integer("num_experts", 1, kMaxExperts, 8));
  }
  std::vector<int> experts = *reader.integers("num_experts", 1, kMaxExperts, kMaxLayers * 2);
  if (experts.size() == layers) return experts;
  const std::string expected = "a number for each of the " + std::to_string(layers) + " MoE layers";
  throw reader.fault("num_experts", expected, std::to_string(experts.size()), "");
}

/// Layers of a stack, and which of them are sparse: where `layer % step == 1`, all where step is 1, none where it
/// is 0.
struct Depth {
  int layers;
  int step;

  bool sparse(int layer) const { return step == 1 || (step > 1 && layer % step == 1); }
  size_t sparse_layers() const {
    size_t count = 0;
    for (int layer = 0; layer < layers; ++layer) count += sparse(layer);
    return count;
  }
};

Depth read_depth(const ConfigReader& reader, const char* sparse_layers, const char* sparse_step, int layers) {
  const int sparse = reader.integer(sparse_layers, 0, layers, 3);
  // Without sparse layers transformers takes the stack's length as the step, which makes layer 1 sparse. A step in the
  // file takes precedence.
  return {layers, reader.integer(sparse_step, 0, kMaxLayers, sparse > 0 ? layers / sparse : layers)};
}

TokenSpec read_tokens(const ConfigReader& reader, size_t vocab) {
  TokenSpec tokens;
  tokens.pad = reader.token("pad_token_id", vocab, 0);
  tokens.end = reader.tokens("eos_token_id", vocab, {1});
  const int start = reader.integer("decoder_start_token_id", 0, static_cast<int>(vocab) - 1, tokens.pad.value_or(-1));
  if (start < 0) throw reader.fault("decoder_start_token_id", "a token id", "none, nor a pad_token_id", "");
  tokens.start = start;
  return tokens;
}

}  // namespace

ModelSpec read_switch_config(const ConfigReader& reader) {
  check_switch_kind(reader);
  ModelSpec spec;
  spec.vocab = static_cast<size_t>(reader.integer("vocab_size", 1, kMaxVocab, 32128));
  spec.width = static_cast<size_t>(reader.integer("d_model", 1, kMaxWidth, 768));
  const FfnSpec ffn{static_cast<size_t>(reader.integer("d_ff", 1, kMaxFfnWidth, 2048)), Activation::kRelu};
  MoeSpec moe;
  moe.expert = ffn;
  if (reader.choice("mlp_type", {"standard", "residual"}) == 1) moe.shared = {ffn, SharedGate::kSoftmax};
  moe.router.capacity = static_cast<size_t>(reader.integer("expert_capacity", 1, kMaxCount, 64));
  spec.norm_epsilon = static_cast<float>(reader.real("layer_norm_epsilon", 0, 1, 1e-6));
  spec.head.tied = reader.boolean("tie_word_embeddings", true);
  if (spec.head.tied) spec.head.scale = 1.0f / std::sqrt(static_cast<float>(spec.width));
  const AttentionSpec attention = read_attention(reader);
  const RelativeBias bias = read_positions(reader);

  const int encoder_layers = reader.integer("num_layers", 1, kMaxLayers, 12);
  // Transformers makes a missing decoder 12 layers deep and a null one as deep as the encoder.
  const int decoder_layers =
      reader.integer("num_decoder_layers", 1, kMaxLayers, reader.is_null("num_decoder_layers") ? encoder_layers : 12);
  const Depth encoder = read_depth(reader, "num_sparse_encoder_layers", "encoder_sparse_step", encoder_layers);
  const Depth decoder = read_depth(reader, "num_sparse_decoder_layers", "decoder_sparse_step", decoder_layers);
  const std::vector<int> experts = read_experts(reader, encoder.sparse_layers() + decoder.sparse_layers());
  auto next = experts.begin();
  for (const bool causal : {false, true}) {
    StackSpec stack{causal ? "decoder" : "encoder", causal, bias, {}};
    const Depth& depth = causal ? decoder : encoder;
    for (int i = 0; i < depth.layers; ++i) {
      LayerSpec layer{attention, std::nullopt, ffn};
      if (causal) layer.cross = attention;
      if (depth.sparse(i)) {
        moe.experts = static_cast<size_t>(*next++);
        layer.feed_forward = moe;
      }
      stack.layers.push_back(std::move(layer));
    }
    spec.stacks.push_back(std::move(stack));
  }
  spec.tokens = read_tokens(reader, spec.vocab);
  return spec;
}

}  // namespace sida
