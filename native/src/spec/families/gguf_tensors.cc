#include "spec/families/gguf_tensors.h"

#include <vector>

#include "core/error.h"
#include "spec/families/decoder_tensors.h"

namespace sida {
namespace {

constexpr const char* kGgufEmbedding = "token_embd.weight";
constexpr const char* kGgufHead = "output.weight";

/// The names that a layer's tensor may have, behind "blk.N.".
std::vector<const char*> names_in_layer(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionNorm:
      return {"attn_norm.weight"};
    case TensorRole::kQueryDown:
      return {"attn_q_a.weight"};
    case TensorRole::kQueryDownBias:
      return {"attn_q_a.bias"};
    case TensorRole::kQueryDownNorm:
      return {"attn_q_a_norm.weight"};
    case TensorRole::kQuery:
      return {"attn_q.weight"};
    case TensorRole::kQueryBias:
      return {"attn_q.bias"};
    case TensorRole::kKey:
      return {"attn_k.weight"};
    case TensorRole::kKeyBias:
      return {"attn_k.bias"};
    case TensorRole::kValue:
      return {"attn_v.weight"};
    case TensorRole::kValueBias:
      return {"attn_v.bias"};
    case TensorRole::kAttentionOutput:
      return {"attn_output.weight"};
    case TensorRole::kAttentionOutputBias:
      return {"attn_output.bias"};
    case TensorRole::kSinks:
      return {"attn_sinks.weight"};
    case TensorRole::kLatentNorm:
      return {"attn_kv_a_norm.weight"};
    case TensorRole::kQueryNorm:
      return {"attn_q_norm.weight"};
    case TensorRole::kKeyNorm:
      return {"attn_k_norm.weight"};
    case TensorRole::kFeedForwardNorm:
      // Architectures whose converter has both names write the norm in front of the network as the second.
      return {"ffn_norm.weight", "post_attention_norm.weight"};
    case TensorRole::kGate:
      return {"ffn_gate.weight"};
    case TensorRole::kUp:
      return {"ffn_up.weight"};
    case TensorRole::kDown:
      return {"ffn_down.weight"};
    case TensorRole::kRouter:
      return {"ffn_gate_inp.weight"};
    case TensorRole::kRouterBias:
      return {"ffn_gate_inp.bias"};
    case TensorRole::kRouterCorrection:
      return {"exp_probs_b.bias", "exp_probs_b"};
    case TensorRole::kSharedGate:
      return {"ffn_gate_shexp.weight"};
    case TensorRole::kSharedUp:
      return {"ffn_up_shexp.weight"};
    case TensorRole::kSharedDown:
      return {"ffn_down_shexp.weight"};
    case TensorRole::kSharedOutputGate:
      return {"ffn_gate_inp_shexp.weight"};
    default:
      throw Error("internal", "a slot has no name in GGUF. This is a bug.");
  }
}

/// All experts of a layer lie in one tensor, gates and ups in one or in two. Old files have a tensor for each expert.
TensorSource expert_source(const ModelSpec& spec, const TensorSlot& slot, const std::string& layer) {
  const MoeSpec& moe = *spec.stacks[slot.stack].layers[slot.layer].moe();
  const TensorRole role = slot.role;
  const bool down = role == TensorRole::kExpertDown || role == TensorRole::kExpertDownBias;
  const bool up = role == TensorRole::kExpertUp || role == TensorRole::kExpertUpBias;
  const bool bias = slot.shape.size() == 1;
  const std::string suffix = bias ? ".bias" : ".weight";
  const std::string name = layer + (down ? "ffn_down" : up ? "ffn_up" : "ffn_gate");
  const uint64_t rows = slot.shape.front();
  const auto shape = [&](uint64_t of_rows) {
    std::vector<uint64_t> all{moe.experts, of_rows};
    if (!bias) all.push_back(slot.shape.back());
    return all;
  };
  TensorSource source{{{name + "_exps" + suffix, shape(rows), slot.expert * rows}}};
  if (!down) {
    source.candidates.push_back(
        {layer + "ffn_gate_up_exps" + suffix, shape(2 * rows), (2 * slot.expert + (up ? 1 : 0)) * rows});
  }
  source.candidates.push_back({name + "." + std::to_string(slot.expert) + suffix});
  return source;
}

std::string layer_prefix(const TensorSlot& slot) { return "blk." + std::to_string(slot.layer) + "."; }

}  // namespace

TensorSource gguf_source(const ModelSpec& spec, const TensorSlot& slot) {
  switch (slot.role) {
    case TensorRole::kEmbedding:
      return {{{kGgufEmbedding}}};
    case TensorRole::kHead:
      return {{{kGgufHead}}};
    case TensorRole::kFinalNorm:
      return {{{"output_norm.weight"}}};
    default:
      break;
  }
  const std::string layer = layer_prefix(slot);
  if (slot.form == TensorForm::kExpert) return expert_source(spec, slot, layer);
  TensorSource source;
  for (const char* name : names_in_layer(slot.role)) source.candidates.push_back({layer + name});
  return source;
}

TensorSource gguf_latent_source(const ModelSpec& spec, const TensorSlot& slot) {
  const AttentionSpec& self = spec.stacks[slot.stack].layers[slot.layer].self;
  const std::string attention = layer_prefix(slot) + "attn_";
  const auto rows_of = [&](const char* suffix, uint64_t first) {
    std::vector<uint64_t> shape{self.latent->row()};
    if (slot.shape.size() == 2) shape.push_back(spec.width);
    return TensorSource{{{attention + "kv_a_mqa" + suffix, std::move(shape), first}}};
  };
  switch (slot.role) {
    case TensorRole::kQuery:
      return {{{attention + (self.latent->query_rank > 0 ? "q_b.weight" : "q.weight")}}};
    case TensorRole::kLatent:
      return rows_of(".weight", 0);
    case TensorRole::kLatentBias:
      return rows_of(".bias", 0);
    case TensorRole::kLatentRotary:
      return rows_of(".weight", self.latent->rank);
    case TensorRole::kLatentRotaryBias:
      return rows_of(".bias", self.latent->rank);
    case TensorRole::kLatentKey:
    case TensorRole::kLatentValue:
      break;
    default:
      return gguf_source(spec, slot);
  }
  // The projection of a head is whole, keys before values, or its key part is transposed in a tensor of its own.
  const uint64_t flat = self.head_dim - self.latent->rotary, head = flat + self.latent->value_dim;
  const uint64_t rank = self.latent->rank, values = self.latent->value_dim;
  const bool key = slot.role == TensorRole::kLatentKey;
  TensorSource::Candidate whole{
      attention + "kv_b.weight", {self.heads * head, rank}, slot.expert * head + (key ? 0 : flat)};
  whole.transposed = key;
  TensorSource::Candidate part =
      key ? TensorSource::Candidate{attention + "k_b.weight", {self.heads, rank, flat}, slot.expert * rank}
          : TensorSource::Candidate{attention + "v_b.weight", {self.heads, values, rank}, slot.expert * values};
  return {{std::move(part), std::move(whole)}};
}

bool owns_gguf_tensor(const ModelSpec& spec, std::string_view name) {
  constexpr std::string_view kLayers = "blk.";
  // A part of the config.
  if (name == "rope_freqs.weight") return false;
  return !name.starts_with(kLayers) || owns_layer(spec, name.substr(kLayers.size()));
}

}  // namespace sida
