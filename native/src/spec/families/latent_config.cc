#include "spec/families/latent_config.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "spec/families/config_limits.h"
#include "spec/families/rope_config.h"

namespace sida {

AttentionSpec read_latent_attention(const ConfigReader& reader, const DecoderDefaults& decoder,
                                    const LatentDefaults& defaults) {
  LatentSpec latent;
  if (!reader.is_null("q_lora_rank") && (defaults.query_rank > 0 || reader.field("q_lora_rank"))) {
    latent.query_rank = read_count(reader, "q_lora_rank", kMaxWidth, defaults.query_rank);
  }
  latent.rank = read_count(reader, "kv_lora_rank", kMaxWidth, defaults.rank);
  latent.rotary = read_count(reader, "qk_rope_head_dim", kMaxWidth, defaults.rotary);
  latent.value_dim = read_count(reader, "v_head_dim", kMaxWidth, defaults.value_dim);
  if (latent.rotary % 2 != 0) {
    throw reader.fault("qk_rope_head_dim", "an even number", std::to_string(latent.rotary),
                       "pairs of columns are rotated");
  }
  AttentionSpec attention;
  attention.heads = read_count(reader, "num_attention_heads", kMaxLatentHeads, decoder.heads);
  attention.kv_heads = 1;
  attention.head_dim = read_count(reader, "qk_nope_head_dim", kMaxWidth, defaults.flat) + latent.rotary;
  attention.biased = attention.output_biased = reader.boolean("attention_bias", false);
  attention.latent = latent;
  const double factor = score_factor(reader, {decoder.theta, decoder.context});
  attention.scale = static_cast<float>(factor * factor / std::sqrt(static_cast<double>(attention.head_dim)));
  return attention;
}

StackSpec latent_stack(const ConfigReader& reader, const DecoderDefaults& defaults, bool adjacent,
                       const LayerSpec& layer) {
  Rope rope = read_rope(reader, layer.self.latent->rotary, {defaults.theta, defaults.context});
  rope.adjacent = adjacent;
  StackSpec stack{"decoder", true, std::move(rope), {}};
  stack.layers.assign(read_count(reader, "num_hidden_layers", kMaxLayers, defaults.layers), layer);
  return stack;
}

ModelSpec read_latent_moe(const ConfigReader& reader, const LatentMoeDefaults& defaults) {
  ModelSpec spec = read_decoder(reader, defaults.decoder);
  MoeSpec moe = read_moe(reader, defaults.moe);
  read_sigmoid_router(reader, defaults.router, moe);
  read_shared_experts(reader, 1, moe);
  const AttentionSpec attention = read_latent_attention(reader, defaults.decoder, defaults.latent);
  const bool adjacent = reader.boolean("rope_interleave", true);
  StackSpec stack = latent_stack(reader, defaults.decoder, adjacent, {attention, std::nullopt, moe});
  make_first_layers_dense(reader, defaults.dense_layers, defaults.dense_width, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

TensorSource latent_source(const ModelSpec& spec, const TensorSlot& slot) {
  const AttentionSpec& self = spec.stacks[slot.stack].layers[slot.layer].self;
  const std::string attention = "model.layers." + std::to_string(slot.layer) + ".self_attn.";
  const auto part_of = [&](const char* name, std::vector<uint64_t> shape, uint64_t first) {
    return TensorSource{{{.name = attention + name, .shape = std::move(shape), .first_row = first}}};
  };
  switch (slot.role) {
    case TensorRole::kQueryDown:
      return {{{attention + "q_a_proj.weight"}}};
    case TensorRole::kQueryDownBias:
      return {{{attention + "q_a_proj.bias"}}};
    case TensorRole::kQueryDownNorm:
      return {{{attention + "q_a_layernorm.weight"}}};
    case TensorRole::kQuery:
      return {{{attention + (self.latent->query_rank > 0 ? "q_b_proj.weight" : "q_proj.weight")}}};
    case TensorRole::kLatentNorm:
      return {{{attention + "kv_a_layernorm.weight"}}};
    case TensorRole::kLatent:
      return part_of("kv_a_proj_with_mqa.weight", {self.latent->row(), spec.width}, 0);
    case TensorRole::kLatentBias:
      return part_of("kv_a_proj_with_mqa.bias", {self.latent->row()}, 0);
    case TensorRole::kLatentRotary:
      return part_of("kv_a_proj_with_mqa.weight", {self.latent->row(), spec.width}, self.latent->rank);
    case TensorRole::kLatentRotaryBias:
      return part_of("kv_a_proj_with_mqa.bias", {self.latent->row()}, self.latent->rank);
    case TensorRole::kLatentKey:
    case TensorRole::kLatentValue:
      break;
    default:
      return decoder_source(spec, slot, {.shared = "shared_experts."});
  }
  const uint64_t flat = self.head_dim - self.latent->rotary, head = flat + self.latent->value_dim;
  const bool key = slot.role == TensorRole::kLatentKey;
  TensorSource source =
      part_of("kv_b_proj.weight", {self.heads * head, self.latent->rank}, slot.expert * head + (key ? 0 : flat));
  source.candidates.front().transposed = key;
  return source;
}

}  // namespace sida
