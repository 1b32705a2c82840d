#include <string>
#include <utility>

#include "spec/families/nomic_bert/nomic_bert.h"

namespace sida {
namespace {

constexpr std::string_view kNomicLayers = "encoder.layers.";

std::string nomic_layer(size_t layer) { return std::string(kNomicLayers) + std::to_string(layer) + "."; }

/// The norm behind a layer's network is the next layer's first.
std::string norm_in_front_of(size_t layer) { return layer == 0 ? "emb_ln." : nomic_layer(layer - 1) + "norm2."; }

/// The experts of a layer lie one after the other, the second matrix as (hidden, width).
TensorSource nomic_expert(const ModelSpec& spec, const TensorSlot& slot) {
  const MoeSpec& moe = *spec.stacks[slot.stack].layers[slot.layer].moe();
  const bool down = slot.role == TensorRole::kExpertDown;
  const uint64_t hidden = moe.expert.width;
  TensorSource::Candidate matrix{nomic_layer(slot.layer) + "mlp.experts.mlp." + (down ? "w2" : "w1"),
                                 {moe.experts * hidden, spec.width},
                                 slot.expert * hidden};
  matrix.transposed = down;
  return {{std::move(matrix)}};
}

TensorSource nomic_bert_source(const ModelSpec& spec, const TensorSlot& slot) {
  const std::string layer = nomic_layer(slot.layer);
  switch (slot.role) {
    case TensorRole::kEmbedding:
      return {{{"embeddings.word_embeddings.weight"}}};
    case TensorRole::kEmbeddingBias:
      return {{{"embeddings.token_type_embeddings.weight", {1, spec.width}}}};
    case TensorRole::kAttentionNorm:
      return {{{norm_in_front_of(slot.layer) + "weight"}}};
    case TensorRole::kAttentionNormBias:
      return {{{norm_in_front_of(slot.layer) + "bias"}}};
    case TensorRole::kFinalNorm:
      return {{{norm_in_front_of(spec.last().layers.size()) + "weight"}}};
    case TensorRole::kFinalNormBias:
      return {{{norm_in_front_of(spec.last().layers.size()) + "bias"}}};
    case TensorRole::kQuery:
    case TensorRole::kQueryBias:
      return third_of(layer + "attn.Wqkv", slot, 0);
    case TensorRole::kKey:
    case TensorRole::kKeyBias:
      return third_of(layer + "attn.Wqkv", slot, 1);
    case TensorRole::kValue:
    case TensorRole::kValueBias:
      return third_of(layer + "attn.Wqkv", slot, 2);
    case TensorRole::kAttentionOutput:
      return {{{layer + "attn.out_proj.weight"}}};
    case TensorRole::kAttentionOutputBias:
      return {{{layer + "attn.out_proj.bias"}}};
    case TensorRole::kFeedForwardNorm:
      return {{{layer + "norm1.weight"}}};
    case TensorRole::kFeedForwardNormBias:
      return {{{layer + "norm1.bias"}}};
    case TensorRole::kUp:
      return {{{layer + "mlp.fc1.weight"}}};
    case TensorRole::kUpBias:
      return {{{layer + "mlp.fc1.bias"}}};
    case TensorRole::kDown:
      return {{{layer + "mlp.fc2.weight"}}};
    case TensorRole::kDownBias:
      return {{{layer + "mlp.fc2.bias"}}};
    case TensorRole::kRouter:
      return {{{layer + "mlp.router.layer.weight"}}};
    case TensorRole::kMoeBias:
      return {{{layer + "mlp.experts.bias"}}};
    default:
      return nomic_expert(spec, slot);
  }
}

bool owns_nomic_bert_tensor(const ModelSpec&, std::string_view name) { return name.starts_with(kNomicLayers); }

}  // namespace

TensorSource third_of(const std::string& matrix, const TensorSlot& slot, uint64_t part) {
  std::vector<uint64_t> shape = slot.shape;
  shape.front() *= 3;
  const char* const end = shape.size() == 1 ? ".bias" : ".weight";
  return {{{matrix + end, std::move(shape), part * slot.shape.front()}}};
}

constexpr Family kNomicBert{"nomic_bert", read_nomic_bert_config, nomic_bert_source, owns_nomic_bert_tensor,
                            &kNomicBertGguf};

}  // namespace sida
