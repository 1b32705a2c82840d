#include <algorithm>
#include <cmath>
#include <string>

#include "spec/config_reader.h"
#include "spec/families/config_limits.h"
#include "spec/families/nomic_bert/nomic_bert.h"
#include "spec/families/rope_config.h"

namespace sida {
namespace {

/// A field under Nomic's own name and under the name in transformers. It has no default: the two defaults differ.
struct Name {
  const char *own, *other;
};

const char* present(const ConfigReader& reader, const Name& name, const char* expected) {
  const char* const found = reader.alias({name.own, name.other});
  if (reader.field(found)) return found;
  throw reader.fault(found, expected, "none", "");
}

size_t need_count(const ConfigReader& reader, const Name& name, int least, int most) {
  const std::string expected = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  return static_cast<size_t>(reader.integer(present(reader, name, expected.c_str()), least, most, 0));
}

void require_null(const ConfigReader& reader, const char* name, const char* hint) {
  if (const auto value = reader.field(name)) throw reader.fault(name, "null", value->describe(), hint);
}

void check_nomic_kind(const ConfigReader& reader) {
  present(reader, {"num_experts", "num_local_experts"}, "a number: models without experts are not supported");
  present(reader, {"activation_function", "hidden_act"}, "\"gelu\"");
  for (const char* name : {"activation_function", "hidden_act"}) {
    reader.require_text(name, "gelu", "other activations are not supported");
  }
  reader.require_false("prenorm", "only norms that come after sums are supported");
  reader.require_false("parallel_block", "layers with parallel parts are not supported");
  reader.require_false("use_rms_norm", "only layer norms are supported");
  reader.require_false("causal", "only encoders are supported");
  reader.require_false("rotary_emb_interleaved", "other rotary positions are not supported");
  reader.require_false("expert_choice_router", "experts that choose tokens are not supported");
  reader.require_false("moe_normalize_expert_weights", "factors of experts are taken as they are");
  reader.require_false("scale_attn_by_inverse_layer_idx", "scores are scaled by the width of heads alone");
  require_null(reader, "rotary_emb_scale_base", "other rotary positions are not supported");
  require_null(reader, "rotary_scaling_factor", "other rotary positions are not supported");
  // Without it nomic's code rotates nothing.
  present(reader, {"rotary_emb_fraction", "rope_parameters"}, "1");
  reader.real("rotary_emb_fraction", 1, 1, 1);
  reader.integer("num_shared_experts", 0, 0, 0);
  reader.integer("ffn_div", 1, 1, 1);
  if (!reader.boolean("scale_attn_weights", true)) {
    throw reader.fault("scale_attn_weights", "true", "false", "scores are scaled by the width of heads");
  }
}

AttentionSpec read_nomic_attention(const ConfigReader& reader, size_t width) {
  const Name name{"n_head", "num_attention_heads"};
  AttentionSpec attention;
  attention.heads = need_count(reader, name, 1, kMaxWidth);
  if (width % (2 * attention.heads) != 0) {
    throw reader.fault(present(reader, name, ""), "heads of an even share of " + std::to_string(width) + " columns",
                       std::to_string(attention.heads), "");
  }
  attention.kv_heads = attention.heads;
  attention.head_dim = width / attention.heads;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(attention.head_dim));
  attention.biased = attention.output_biased = reader.boolean("qkv_proj_bias", true);
  return attention;
}

FfnSpec read_nomic_network(const ConfigReader& reader) {
  FfnSpec ffn{need_count(reader, {"n_inner", "intermediate_size"}, 1, kMaxFfnWidth), Activation::kGelu};
  ffn.biased = reader.boolean("mlp_fc1_bias", true);
  if (reader.boolean("mlp_fc2_bias", true) != ffn.biased) {
    const char* const both[] = {"false", "true"};
    throw reader.fault("mlp_fc2_bias", std::string(both[ffn.biased]) + ", as mlp_fc1_bias", both[!ffn.biased], "");
  }
  return ffn;
}

}  // namespace

ModelSpec read_nomic_bert_config(const ConfigReader& reader) {
  check_nomic_kind(reader);
  ModelSpec spec;
  spec.vocab = need_count(reader, {"vocab_size", "vocab_size"}, 1, kMaxVocab);
  spec.width = need_count(reader, {"n_embd", "hidden_size"}, 1, kMaxWidth);
  spec.norm = NormKind::kLayer;
  const Name epsilon{"layer_norm_epsilon", "layer_norm_eps"};
  spec.norm_epsilon = static_cast<float>(reader.real(present(reader, epsilon, "a number from 0 to 1"), 0, 1, 0));
  spec.context = need_count(reader, {"n_positions", "max_position_embeddings"}, 1, kMaxCount);
  spec.head.present = false;
  spec.sums_from_norms = true;
  // Row 0 is that of all tokens.
  spec.embedding_biased = need_count(reader, {"type_vocab_size", "type_vocab_size"}, 1, 1) == 1;
  const AttentionSpec attention = read_nomic_attention(reader, spec.width);
  MoeSpec moe;
  moe.experts = need_count(reader, {"num_experts", "num_local_experts"}, 1, kMaxExperts);
  moe.router.top_k = need_count(reader, {"moe_top_k", "num_experts_per_tok"}, 1,
                                static_cast<int>(std::min<size_t>(kMaxTopK, moe.experts)));
  // Not a field of Nomic's: llama.cpp's converter leaves this bias out.
  moe.biased = reader.boolean("moe_bias", true);
  const FfnSpec dense = read_nomic_network(reader);
  moe.expert = {dense.width, Activation::kGelu};
  const size_t layers = need_count(reader, {"n_layer", "num_hidden_layers"}, 1, kMaxLayers);
  const size_t step = need_count(reader, {"moe_every_n_layers", "moe_every_n_layers"}, 2, kMaxLayers);
  StackSpec stack{"encoder", false, {}, {}};
  stack.positions = read_rope(reader, attention.head_dim,
                              {reader.real("rotary_emb_base", 1, 1e12, 10000), static_cast<int>(spec.context)});
  for (size_t i = 0; i < layers; ++i) {
    LayerSpec layer{attention, std::nullopt, dense};
    if (i % step == 1) layer.feed_forward = moe;
    stack.layers.push_back(std::move(layer));
  }
  spec.stacks.push_back(std::move(stack));
  spec.tokens.pad = reader.token("pad_token_id", spec.vocab, std::nullopt);
  return spec;
}

}  // namespace sida
