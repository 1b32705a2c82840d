#include <string>
#include <vector>

#include "spec/families/decoder_tensors.h"
#include "spec/families/gemma4/gemma4.h"

namespace sida {
namespace {

constexpr std::string_view kTextPrefix = "model.", kVisionPrefix = "model.language_model.";

/// Of tensors that other families do not have, or call otherwise; null: none.
const char* gemma4_name(TensorRole role) {
  switch (role) {
    case TensorRole::kAttentionPostNorm:
      return "post_attention_layernorm.weight";
    case TensorRole::kFeedForwardNorm:
      return "pre_feedforward_layernorm.weight";
    case TensorRole::kFeedForwardPostNorm:
      return "post_feedforward_layernorm.weight";
    case TensorRole::kSharedPostNorm:
      return "post_feedforward_layernorm_1.weight";
    case TensorRole::kExpertsNorm:
      return "pre_feedforward_layernorm_2.weight";
    case TensorRole::kExpertsPostNorm:
      return "post_feedforward_layernorm_2.weight";
    case TensorRole::kLayerScale:
      return "layer_scalar";
    case TensorRole::kRouter:
      return "router.proj.weight";
    case TensorRole::kRouterInputScale:
      return "router.scale";
    case TensorRole::kExpertFactors:
      return "router.per_expert_scale";
    default:
      return nullptr;
  }
}

/// Published checkpoints have vision towers, and names of the text part one level deeper. Errors use the first name.
TensorSource gemma4_source(const ModelSpec& spec, const TensorSlot& slot) {
  TensorSource source;
  if (const char* name = gemma4_name(slot.role)) {
    source.candidates.push_back({std::string(kTextPrefix) + "layers." + std::to_string(slot.layer) + "." + name});
  } else {
    source = decoder_source(spec, slot, {.blocks = {""}, .shared = "mlp."});
  }
  std::vector<TensorSource::Candidate> deeper;
  for (const TensorSource::Candidate& candidate : source.candidates) {
    if (!candidate.name.starts_with(kTextPrefix)) continue;
    deeper.push_back(candidate);
    deeper.back().name.replace(0, kTextPrefix.size(), kVisionPrefix);
  }
  source.candidates.insert(source.candidates.begin() + 1, deeper.begin(), deeper.end());
  return source;
}

bool owns_gemma4_tensor(const ModelSpec& spec, std::string_view name) {
  if (!name.starts_with(kVisionPrefix)) return owns_decoder_tensor(spec, name);
  return owns_decoder_tensor(spec, std::string(kTextPrefix).append(name.substr(kVisionPrefix.size())));
}

}  // namespace

constexpr Family kGemma4{"gemma4", read_gemma4_config, gemma4_source, owns_gemma4_tensor, &kGemma4Gguf};
constexpr Family kGemma4Text{"gemma4_text", read_gemma4_config, gemma4_source, owns_gemma4_tensor};

}  // namespace sida
