#include <cmath>
#include <cstdint>
#include <string>

#include "core/portable_math.h"
#include "spec/config_reader.h"
#include "spec/families/config_limits.h"
#include "spec/families/nllb_moe/nllb_moe.h"

namespace sida {
namespace {

void check_nllb_kind(const ConfigReader& reader) {
  reader.require_text("activation_function", "relu", "other activations are not supported");
  reader.require_text("router_dtype", "float32", "routers run in float32");
  reader.require_text("second_expert_policy", "all", "a second expert that is drawn at random is not supported");
  reader.require_false("batch_prioritized_routing", "an answer may not depend on the other sequences of its batch");
  if (reader.real("moe_eval_capacity_token_fraction", -1e9, 1e9, 1) != 1) {
    throw reader.fault("moe_eval_capacity_token_fraction", "1",
                       reader.field("moe_eval_capacity_token_fraction")->describe(),
                       "an answer may not depend on the other sequences of its batch");
  }
  if (!reader.boolean("tie_word_embeddings", true)) {
    throw reader.fault("tie_word_embeddings", "true", "false", "a head of its own is not supported");
  }
}

AttentionSpec read_attention(const ConfigReader& reader, size_t width) {
  AttentionSpec attention;
  const int heads = reader.integer("encoder_attention_heads", 1, kMaxWidth, 16);
  if (width % static_cast<size_t>(heads) != 0) {
    throw reader.fault("encoder_attention_heads", "a divisor of the " + std::to_string(width) + " columns of d_model",
                       std::to_string(heads), "");
  }
  if (const int other = reader.integer("decoder_attention_heads", 1, kMaxWidth, 16); other != heads) {
    throw reader.fault("decoder_attention_heads", std::to_string(heads) + ", as encoder_attention_heads",
                       std::to_string(other), "stacks with different heads are not supported");
  }
  attention.heads = attention.kv_heads = static_cast<size_t>(heads);
  attention.head_dim = width / attention.heads;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(attention.head_dim));
  attention.biased = attention.output_biased = true;
  return attention;
}

/// In float32, as in transformers. The powers are rounded once and agree with transformers' to within the last bit.
Sinusoids read_positions(const ConfigReader& reader, size_t width, size_t vocab) {
  const auto pad = reader.token("pad_token_id", vocab, 1);
  if (!pad) throw reader.fault("pad_token_id", "a token id", "null", "positions are counted from it");
  Sinusoids sinusoids;
  sinusoids.pad = *pad;
  const size_t half = width / 2;
  const auto step = static_cast<float>(portable_log(10000) / static_cast<double>(half - 1));
  for (size_t j = 0; j < half; ++j) {
    const float exponent = static_cast<float>(j) * -step;
    sinusoids.frequencies.push_back(static_cast<float>(portable_exp(static_cast<double>(exponent))));
  }
  return sinusoids;
}

MoeSpec read_moe(const ConfigReader& reader) {
  MoeSpec moe;
  moe.experts = static_cast<size_t>(reader.integer("num_experts", 2, kMaxExperts, 128));
  moe.router.top_k = 2;
  moe.router.normalized = true;
  moe.router.biased = reader.boolean("router_bias", false);
  // In training an expert's output is dropped at this rate.
  moe.router.scale = 1 - reader.real("moe_token_dropout", 0, 1, 0.2);
  return moe;
}

struct StackSizes {
  int layers, step;
  FfnSpec ffn;

  StackSizes(const ConfigReader& reader, const std::string& name)
      : layers(reader.integer((name + "_layers").c_str(), 1, kMaxLayers, 12)),
        step(reader.integer((name + "_sparse_step").c_str(), 0, kMaxLayers, 4)),
        ffn{static_cast<size_t>(reader.integer((name + "_ffn_dim").c_str(), 1, kMaxFfnWidth, 4096)), Activation::kRelu,
            true} {}

  /// Every `step`th layer is sparse, none where it is 0.
  bool sparse(int layer) const { return step > 0 && (layer + 1) % step == 0; }
  bool has_sparse() const { return step > 0 && step <= layers; }
};

}  // namespace

ModelSpec read_nllb_moe_config(const ConfigReader& reader) {
  check_nllb_kind(reader);
  ModelSpec spec;
  spec.vocab = static_cast<size_t>(reader.integer("vocab_size", 1, kMaxVocab, 128112));
  // The frequencies' exponents are divided by half of it less one.
  spec.width = static_cast<size_t>(reader.integer("d_model", 4, kMaxWidth, 1024));
  spec.norm = NormKind::kLayer;
  spec.norm_epsilon = 1e-5f;
  spec.context = static_cast<size_t>(reader.integer("max_position_embeddings", 1, kMaxCount, 1024));
  spec.head.tied = true;
  if (reader.boolean("scale_embedding", true)) spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  const AttentionSpec attention = read_attention(reader, spec.width);
  const Sinusoids positions = read_positions(reader, spec.width, spec.vocab);
  MoeSpec moe = read_moe(reader);
  const StackSizes encoder(reader, "encoder"), decoder(reader, "decoder");
  if (encoder.has_sparse() && decoder.has_sparse() && encoder.ffn.width != decoder.ffn.width) {
    throw reader.fault("decoder_ffn_dim", std::to_string(encoder.ffn.width) + ", as encoder_ffn_dim",
                       std::to_string(decoder.ffn.width), "all experts of a model have the same size");
  }
  for (const bool causal : {false, true}) {
    StackSpec stack{causal ? "decoder" : "encoder", causal, positions, {}};
    const StackSizes& sizes = causal ? decoder : encoder;
    moe.expert = sizes.ffn;
    for (int i = 0; i < sizes.layers; ++i) {
      LayerSpec layer{attention, std::nullopt, sizes.ffn};
      if (causal) layer.cross = attention;
      if (sizes.sparse(i)) layer.feed_forward = moe;
      stack.layers.push_back(std::move(layer));
    }
    spec.stacks.push_back(std::move(stack));
  }
  spec.tokens.pad = positions.pad;
  spec.tokens.end = reader.tokens("eos_token_id", spec.vocab, {2});
  spec.tokens.start = reader.integer("decoder_start_token_id", 0, static_cast<int>(spec.vocab) - 1, 2);
  return spec;
}

}  // namespace sida
