#include "spec/tensors.h"

#include <utility>

namespace sida {
namespace {

const char* role_name(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
      return "embedding";
    case TensorRole::kEmbeddingBias:
      return "embedding_bias";
    case TensorRole::kPositionBias:
      return "position_bias";
    case TensorRole::kAttentionNorm:
      return "attention_norm";
    case TensorRole::kAttentionNormBias:
      return "attention_norm_bias";
    case TensorRole::kAttentionPostNorm:
      return "attention_post_norm";
    case TensorRole::kQuery:
      return "query";
    case TensorRole::kQueryDown:
      return "query_down";
    case TensorRole::kQueryDownBias:
      return "query_down_bias";
    case TensorRole::kQueryDownNorm:
      return "query_down_norm";
    case TensorRole::kQueryBias:
      return "query_bias";
    case TensorRole::kKey:
      return "key";
    case TensorRole::kKeyBias:
      return "key_bias";
    case TensorRole::kValue:
      return "value";
    case TensorRole::kValueBias:
      return "value_bias";
    case TensorRole::kAttentionOutput:
      return "output";
    case TensorRole::kAttentionOutputBias:
      return "output_bias";
    case TensorRole::kSinks:
      return "sinks";
    case TensorRole::kOutputGate:
      return "output_gate";
    case TensorRole::kBeta:
      return "beta";
    case TensorRole::kDecay:
      return "decay";
    case TensorRole::kDecayBias:
      return "decay_bias";
    case TensorRole::kDecayRate:
      return "decay_rate";
    case TensorRole::kQueryTaps:
      return "query_taps";
    case TensorRole::kKeyTaps:
      return "key_taps";
    case TensorRole::kValueTaps:
      return "value_taps";
    case TensorRole::kDeltaNorm:
      return "delta_norm";
    case TensorRole::kLatent:
      return "latent";
    case TensorRole::kLatentBias:
      return "latent_bias";
    case TensorRole::kLatentRotary:
      return "latent_rotary";
    case TensorRole::kLatentRotaryBias:
      return "latent_rotary_bias";
    case TensorRole::kLatentNorm:
      return "latent_norm";
    case TensorRole::kLatentKey:
      return "latent_key";
    case TensorRole::kLatentValue:
      return "latent_value";
    case TensorRole::kQueryNorm:
      return "query_norm";
    case TensorRole::kKeyNorm:
      return "key_norm";
    case TensorRole::kCrossNorm:
      return "cross_norm";
    case TensorRole::kCrossNormBias:
      return "cross_norm_bias";
    case TensorRole::kCrossQuery:
      return "cross_query";
    case TensorRole::kCrossQueryBias:
      return "cross_query_bias";
    case TensorRole::kCrossKey:
      return "cross_key";
    case TensorRole::kCrossKeyBias:
      return "cross_key_bias";
    case TensorRole::kCrossValue:
      return "cross_value";
    case TensorRole::kCrossValueBias:
      return "cross_value_bias";
    case TensorRole::kCrossOutput:
      return "cross_output";
    case TensorRole::kCrossOutputBias:
      return "cross_output_bias";
    case TensorRole::kFeedForwardNorm:
      return "feed_forward_norm";
    case TensorRole::kFeedForwardNormBias:
      return "feed_forward_norm_bias";
    case TensorRole::kFeedForwardPostNorm:
      return "feed_forward_post_norm";
    case TensorRole::kLayerScale:
      return "layer_scale";
    case TensorRole::kGate:
    case TensorRole::kExpertGate:
      return "gate";
    case TensorRole::kGateBias:
    case TensorRole::kExpertGateBias:
      return "gate_bias";
    case TensorRole::kUpBias:
    case TensorRole::kExpertUpBias:
      return "up_bias";
    case TensorRole::kDownBias:
    case TensorRole::kExpertDownBias:
      return "down_bias";
    case TensorRole::kUp:
    case TensorRole::kExpertUp:
      return "up";
    case TensorRole::kDown:
    case TensorRole::kExpertDown:
      return "down";
    case TensorRole::kRouter:
      return "router";
    case TensorRole::kRouterBias:
      return "router_bias";
    case TensorRole::kRouterCorrection:
      return "router_correction";
    case TensorRole::kMoeBias:
      return "moe_bias";
    case TensorRole::kRouterInputScale:
      return "router_input_scale";
    case TensorRole::kExpertFactors:
      return "expert_factors";
    case TensorRole::kSharedPostNorm:
      return "shared_post_norm";
    case TensorRole::kExpertsNorm:
      return "experts_norm";
    case TensorRole::kExpertsPostNorm:
      return "experts_post_norm";
    case TensorRole::kSharedGate:
      return "shared_gate";
    case TensorRole::kSharedGateBias:
      return "shared_gate_bias";
    case TensorRole::kSharedUp:
      return "shared_up";
    case TensorRole::kSharedUpBias:
      return "shared_up_bias";
    case TensorRole::kSharedDown:
      return "shared_down";
    case TensorRole::kSharedDownBias:
      return "shared_down_bias";
    case TensorRole::kSharedOutputGate:
      return "shared_output_gate";
    case TensorRole::kSharedOutputGateBias:
      return "shared_output_gate_bias";
    case TensorRole::kFinalNorm:
      return "final_norm";
    case TensorRole::kFinalNormBias:
      return "final_norm_bias";
    case TensorRole::kHead:
      break;
  }
  return "head";
}

using Visit = std::function<void(const TensorSlot&)>;
using Shape = std::vector<uint64_t>;

class SlotVisitor {
 public:
  SlotVisitor(const ModelSpec& spec, bool experts, const Visit& visit)
      : spec_(spec), experts_(experts), visit_(visit) {}

  void visit_model() {
    for (size_t stack = 0; stack < (spec_.head.tied ? 1 : spec_.stacks.size()); ++stack) {
      matrix(TensorRole::kEmbedding, stack, 0, spec_.vocab, spec_.width);
    }
    if (spec_.head.present && !spec_.head.tied) {
      matrix(TensorRole::kHead, spec_.stacks.size() - 1, 0, spec_.vocab, spec_.width);
    }
    if (spec_.embedding_biased) rows(TensorRole::kEmbeddingBias, 0, 0, {spec_.width});
    for (size_t stack = 0; stack < spec_.stacks.size(); ++stack) visit_stack(stack);
  }

  void visit_expert(size_t stack, size_t layer, size_t expert, const FfnSpec& ffn) {
    const auto slot = [&](TensorRole role, TensorRole bias, uint64_t n, uint64_t k) {
      visit_({role, TensorForm::kExpert, stack, layer, expert, {n, k}});
      if (ffn.biased) visit_({bias, TensorForm::kExpert, stack, layer, expert, {n}});
    };
    const uint64_t hidden = ffn.width, width = spec_.width;
    if (gated(ffn.activation)) slot(TensorRole::kExpertGate, TensorRole::kExpertGateBias, hidden, width);
    slot(TensorRole::kExpertUp, TensorRole::kExpertUpBias, hidden, width);
    slot(TensorRole::kExpertDown, TensorRole::kExpertDownBias, width, hidden);
  }

 private:
  void visit_stack(size_t at) {
    const StackSpec& stack = spec_.stacks[at];
    if (const auto* bias = std::get_if<RelativeBias>(&stack.positions)) {
      rows(TensorRole::kPositionBias, at, 0, {static_cast<uint64_t>(bias->buckets), stack.attention().heads});
    }
    for (size_t layer = 0; layer < stack.layers.size(); ++layer) visit_layer(at, layer, stack.layers[layer]);
    norm(TensorRole::kFinalNorm, TensorRole::kFinalNormBias, at, 0);
  }

  void visit_layer(size_t stack, size_t layer, const LayerSpec& spec) {
    const AttentionSpec& self = spec.self;
    norm(TensorRole::kAttentionNorm, TensorRole::kAttentionNormBias, stack, layer);
    if (spec.delta) {
      visit_delta(stack, layer, *spec.delta);
    } else if (self.latent) {
      visit_latent(stack, layer, self, *self.latent);
    } else {
      visit_heads(stack, layer, self);
    }
    if (!spec.delta && self.output_biased) rows(TensorRole::kAttentionOutputBias, stack, layer, {spec_.width});
    if (!spec.delta && self.sinks) rows(TensorRole::kSinks, stack, layer, {self.heads});
    if (spec.post_norms) rows(TensorRole::kAttentionPostNorm, stack, layer, {spec_.width});
    if (spec.cross) visit_cross(stack, layer, *spec.cross);
    norm(TensorRole::kFeedForwardNorm, TensorRole::kFeedForwardNormBias, stack, layer);
    if (spec.post_norms) rows(TensorRole::kFeedForwardPostNorm, stack, layer, {spec_.width});
    if (spec.scaled) rows(TensorRole::kLayerScale, stack, layer, {1});
    if (const MoeSpec* moe = spec.moe()) {
      visit_({TensorRole::kRouter, TensorForm::kRouter, stack, layer, 0, {moe->experts, spec_.width}});
      if (moe->router.biased) rows(TensorRole::kRouterBias, stack, layer, {moe->experts});
      if (moe->router.corrected) rows(TensorRole::kRouterCorrection, stack, layer, {moe->experts});
      if (moe->biased) rows(TensorRole::kMoeBias, stack, layer, {spec_.width});
      if (moe->router.input_scale) rows(TensorRole::kRouterInputScale, stack, layer, {spec_.width});
      if (moe->router.weighted) rows(TensorRole::kExpertFactors, stack, layer, {moe->experts});
      if (moe->branches) {
        for (const auto role : {TensorRole::kSharedPostNorm, TensorRole::kExpertsNorm, TensorRole::kExpertsPostNorm}) {
          rows(role, stack, layer, {spec_.width});
        }
      }
      if (moe->shared) visit_shared_expert(stack, layer, *moe->shared);
      for (size_t expert = 0; experts_ && expert < moe->experts; ++expert) {
        visit_expert(stack, layer, expert, moe->expert);
      }
      return;
    }
    const FfnSpec& ffn = std::get<FfnSpec>(spec.feed_forward);
    if (gated(ffn.activation)) matrix(TensorRole::kGate, stack, layer, ffn.width, spec_.width);
    matrix(TensorRole::kUp, stack, layer, ffn.width, spec_.width);
    matrix(TensorRole::kDown, stack, layer, spec_.width, ffn.width);
    if (!ffn.biased) return;
    if (gated(ffn.activation)) rows(TensorRole::kGateBias, stack, layer, {ffn.width});
    rows(TensorRole::kUpBias, stack, layer, {ffn.width});
    rows(TensorRole::kDownBias, stack, layer, {spec_.width});
  }

  void visit_cross(size_t stack, size_t layer, const AttentionSpec& cross) {
    norm(TensorRole::kCrossNorm, TensorRole::kCrossNormBias, stack, layer);
    matrix(TensorRole::kCrossQuery, stack, layer, cross.query_width(), spec_.width);
    matrix(TensorRole::kCrossKey, stack, layer, cross.kv_width(), spec_.width);
    matrix(TensorRole::kCrossValue, stack, layer, cross.kv_width(), spec_.width);
    matrix(TensorRole::kCrossOutput, stack, layer, spec_.width, cross.query_width());
    if (cross.biased) {
      rows(TensorRole::kCrossQueryBias, stack, layer, {cross.query_width()});
      rows(TensorRole::kCrossKeyBias, stack, layer, {cross.kv_width()});
      rows(TensorRole::kCrossValueBias, stack, layer, {cross.kv_width()});
    }
    if (cross.output_biased) rows(TensorRole::kCrossOutputBias, stack, layer, {spec_.width});
  }

  void visit_heads(size_t stack, size_t layer, const AttentionSpec& self) {
    matrix(TensorRole::kQuery, stack, layer, self.query_width(), spec_.width);
    matrix(TensorRole::kKey, stack, layer, self.kv_width(), spec_.width);
    if (self.values != Values::kNormedKeys) matrix(TensorRole::kValue, stack, layer, self.kv_width(), spec_.width);
    if (self.gated) matrix(TensorRole::kOutputGate, stack, layer, self.query_width(), spec_.width);
    matrix(TensorRole::kAttentionOutput, stack, layer, spec_.width, self.output_width());
    if (self.biased) {
      rows(TensorRole::kQueryBias, stack, layer, {self.query_width()});
      rows(TensorRole::kKeyBias, stack, layer, {self.kv_width()});
      rows(TensorRole::kValueBias, stack, layer, {self.kv_width()});
    }
    if (self.qk_norm == QkNorm::kNone) return;
    const bool row = self.qk_norm == QkNorm::kRow;
    rows(TensorRole::kQueryNorm, stack, layer, {row ? self.query_width() : self.head_dim});
    rows(TensorRole::kKeyNorm, stack, layer, {row ? self.kv_width() : self.head_dim});
  }

  void visit_delta(size_t stack, size_t layer, const DeltaSpec& delta) {
    const uint64_t keys = delta.key_width(), values = delta.value_width(), heads = delta.value_heads;
    matrix(TensorRole::kQuery, stack, layer, keys, spec_.width);
    matrix(TensorRole::kKey, stack, layer, keys, spec_.width);
    matrix(TensorRole::kValue, stack, layer, values, spec_.width);
    matrix(TensorRole::kOutputGate, stack, layer, values, spec_.width);
    visit_({TensorRole::kBeta, TensorForm::kGate, stack, layer, 0, {heads, spec_.width}});
    visit_({TensorRole::kDecay, TensorForm::kGate, stack, layer, 0, {heads, spec_.width}});
    rows(TensorRole::kDecayBias, stack, layer, {heads});
    rows(TensorRole::kDecayRate, stack, layer, {heads});
    rows(TensorRole::kQueryTaps, stack, layer, {keys, delta.taps});
    rows(TensorRole::kKeyTaps, stack, layer, {keys, delta.taps});
    rows(TensorRole::kValueTaps, stack, layer, {values, delta.taps});
    rows(TensorRole::kDeltaNorm, stack, layer, {delta.value_dim});
    matrix(TensorRole::kAttentionOutput, stack, layer, spec_.width, values);
  }

  void visit_latent(size_t stack, size_t layer, const AttentionSpec& self, const LatentSpec& latent) {
    if (latent.query_rank > 0) {
      matrix(TensorRole::kQueryDown, stack, layer, latent.query_rank, spec_.width);
      if (self.biased) rows(TensorRole::kQueryDownBias, stack, layer, {latent.query_rank});
      rows(TensorRole::kQueryDownNorm, stack, layer, {latent.query_rank});
    }
    const uint64_t queries = latent.query_rank > 0 ? latent.query_rank : spec_.width;
    matrix(TensorRole::kQuery, stack, layer, self.query_width(), queries);
    matrix(TensorRole::kLatent, stack, layer, latent.rank, spec_.width);
    matrix(TensorRole::kLatentRotary, stack, layer, latent.rotary, spec_.width);
    if (self.biased) {
      rows(TensorRole::kLatentBias, stack, layer, {latent.rank});
      rows(TensorRole::kLatentRotaryBias, stack, layer, {latent.rotary});
    }
    rows(TensorRole::kLatentNorm, stack, layer, {latent.rank});
    for (size_t head = 0; head < self.heads; ++head) {
      matrix(TensorRole::kLatentKey, stack, layer, latent.rank, self.head_dim - latent.rotary, head);
      matrix(TensorRole::kLatentValue, stack, layer, latent.value_dim, latent.rank, head);
    }
    matrix(TensorRole::kAttentionOutput, stack, layer, spec_.width, self.output_width());
  }

  void visit_shared_expert(size_t stack, size_t layer, const SharedExpertSpec& shared) {
    const FfnSpec& ffn = shared.ffn;
    if (gated(ffn.activation)) matrix(TensorRole::kSharedGate, stack, layer, ffn.width, spec_.width);
    matrix(TensorRole::kSharedUp, stack, layer, ffn.width, spec_.width);
    matrix(TensorRole::kSharedDown, stack, layer, spec_.width, ffn.width);
    if (ffn.biased) {
      if (gated(ffn.activation)) rows(TensorRole::kSharedGateBias, stack, layer, {ffn.width});
      rows(TensorRole::kSharedUpBias, stack, layer, {ffn.width});
      rows(TensorRole::kSharedDownBias, stack, layer, {spec_.width});
    }
    if (shared.gate == SharedGate::kNone) return;
    const uint64_t gates = shared.gate == SharedGate::kSoftmax ? 2 : 1;
    visit_({TensorRole::kSharedOutputGate, TensorForm::kGate, stack, layer, 0, {gates, spec_.width}});
    if (gates == 2) rows(TensorRole::kSharedOutputGateBias, stack, layer, {gates});
  }

  void norm(TensorRole weight, TensorRole bias, size_t stack, size_t layer) {
    rows(weight, stack, layer, {spec_.width});
    if (spec_.norm == NormKind::kLayer) rows(bias, stack, layer, {spec_.width});
  }

  void matrix(TensorRole role, size_t stack, size_t layer, uint64_t n, uint64_t k, size_t head = 0) {
    visit_({role, TensorForm::kMatrix, stack, layer, head, {n, k}});
  }
  void rows(TensorRole role, size_t stack, size_t layer, Shape shape) {
    visit_({role, TensorForm::kRows, stack, layer, 0, std::move(shape)});
  }

  const ModelSpec& spec_;
  bool experts_;
  const Visit& visit_;
};

}  // namespace

std::string TensorSlot::label(const ModelSpec& spec) const {
  const std::string name = role_name(role);
  const std::string in_stack = spec.stacks.at(stack).name + ".";
  switch (role) {
    case TensorRole::kHead:
    case TensorRole::kEmbeddingBias:
      return name;
    case TensorRole::kEmbedding:
      return spec.head.tied ? name : in_stack + name;
    case TensorRole::kPositionBias:
    case TensorRole::kFinalNorm:
    case TensorRole::kFinalNormBias:
      return in_stack + name;
    default:
      break;
  }
  const std::string in_layer = in_stack + std::to_string(layer) + ".";
  if (role == TensorRole::kLatentKey || role == TensorRole::kLatentValue) {
    return in_layer + "head." + std::to_string(expert) + "." + name;
  }
  return form == TensorForm::kExpert ? in_layer + "expert." + std::to_string(expert) + "." + name : in_layer + name;
}

void for_each_slot(const ModelSpec& spec, const Visit& visit) { SlotVisitor(spec, true, visit).visit_model(); }

void for_each_dense_slot(const ModelSpec& spec, const Visit& visit) { SlotVisitor(spec, false, visit).visit_model(); }

std::vector<TensorSlot> expert_slots(const ModelSpec& spec, size_t stack, size_t layer, size_t expert) {
  std::vector<TensorSlot> slots;
  const Visit keep = [&](const TensorSlot& slot) { slots.push_back(slot); };
  const MoeSpec* moe = spec.stacks.at(stack).layers.at(layer).moe();
  if (moe != nullptr) SlotVisitor(spec, true, keep).visit_expert(stack, layer, expert, moe->expert);
  return slots;
}

}  // namespace sida
