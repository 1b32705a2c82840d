#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "model/config_reader.h"
#include "model/families/config_limits.h"
#include "model/families/olmoe/olmoe.h"
#include "model/families/rope_config.h"

namespace sida {
namespace {

constexpr double kMaxClip = 1e9;

size_t count(const ConfigReader& reader, const char* name, int most, int fallback) {
  return static_cast<size_t>(reader.integer(name, 1, most, fallback));
}

AttentionSpec read_attention(const ConfigReader& reader, size_t width) {
  reader.require_false("attention_bias", "biases of attention are not supported");
  AttentionSpec attention;
  const int most = static_cast<int>(width);
  attention.heads = count(reader, "num_attention_heads", most, 16);
  attention.head_dim = width / attention.heads;
  if (attention.heads * attention.head_dim != width || attention.head_dim % 2 != 0) {
    throw reader.fault("num_attention_heads",
                       "heads of a whole, even number of the " + std::to_string(width) + " columns of \"hidden_size\"",
                       std::to_string(attention.heads), "");
  }
  const int head_dim = static_cast<int>(attention.head_dim);
  reader.integer("head_dim", head_dim, head_dim, head_dim);
  const int heads = static_cast<int>(attention.heads);
  attention.kv_heads = count(reader, "num_key_value_heads", heads, heads);
  if (attention.heads % attention.kv_heads != 0) {
    throw reader.fault("num_key_value_heads", "a divisor of the " + std::to_string(heads) + " heads",
                       std::to_string(attention.kv_heads), "");
  }
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
  attention.qk_norm = QkNorm::kRow;
  if (const auto clip = reader.field("clip_qkv")) {
    attention.clip = static_cast<float>(reader.real("clip_qkv", 0, kMaxClip, 0));
  }
  return attention;
}

MoeSpec read_moe(const ConfigReader& reader) {
  reader.require_text("hidden_act", "silu", "other activations are not supported");
  MoeSpec moe;
  moe.experts = count(reader, reader.alias({"num_experts", "num_local_experts"}), kMaxExperts, 64);
  moe.expert = {count(reader, "intermediate_size", kMaxFfnWidth, 2048), Activation::kSwiglu};
  const int most = std::min(kMaxTopK, static_cast<int>(moe.experts));
  moe.router.top_k = count(reader, "num_experts_per_tok", most, 8);
  if (moe.router.top_k > moe.experts) {
    throw reader.fault("num_experts_per_tok", "a whole number from 1 to " + std::to_string(most), "none, which is 8",
                       "");
  }
  moe.router.normalized = reader.boolean("norm_topk_prob", false);
  return moe;
}

}  // namespace

ModelSpec read_olmoe_config(const ConfigReader& reader) {
  ModelSpec spec;
  spec.vocab = count(reader, "vocab_size", kMaxVocab, 50304);
  spec.width = count(reader, "hidden_size", kMaxWidth, 2048);
  spec.norm_epsilon = static_cast<float>(reader.real("rms_norm_eps", 0, 1, 1e-5));
  spec.context = count(reader, "max_position_embeddings", kMaxCount, 4096);
  spec.head.tied = reader.boolean("tie_word_embeddings", false);
  const AttentionSpec attention = read_attention(reader, spec.width);
  StackSpec stack{"decoder", true, read_rope(reader, attention.head_dim), {}};
  const LayerSpec layer{attention, std::nullopt, read_moe(reader)};
  stack.layers.assign(count(reader, "num_hidden_layers", kMaxLayers, 16), layer);
  spec.stacks.push_back(std::move(stack));
  spec.tokens.end = reader.tokens("eos_token_id", spec.vocab, {50279});
  spec.tokens.pad = reader.token("pad_token_id", spec.vocab, 1);
  return spec;
}

}  // namespace sida
