#include <string>
#include <string_view>

#include "spec/families/decoder_tensors.h"
#include "spec/families/qwen3_5_moe/qwen3_5_moe.h"
#include "spec/families/qwen_delta.h"

namespace sida {
namespace {

constexpr std::string_view kPart = "model.", kTextPart = "model.language_model.";

/// A checkpoint with a vision part has its text part under a name of its own.
TensorSource qwen3_5_moe_source(const ModelSpec& spec, const TensorSlot& slot) {
  TensorSource source = qwen_delta_source(spec, slot);
  std::vector<TensorSource::Candidate> alone = source.candidates;
  for (TensorSource::Candidate& candidate : source.candidates) {
    if (candidate.name.starts_with(kPart)) candidate.name.replace(0, kPart.size(), kTextPart);
  }
  source.candidates.insert(source.candidates.end(), alone.begin(), alone.end());
  return source;
}

bool owns_qwen3_5_moe_tensor(const ModelSpec& spec, std::string_view name) {
  if (!name.starts_with(kTextPart)) return owns_decoder_tensor(spec, name);
  return owns_decoder_tensor(spec, std::string(kPart).append(name.substr(kTextPart.size())));
}

}  // namespace

constexpr Family kQwen35Moe{"qwen3_5_moe", read_qwen3_5_moe_config, qwen3_5_moe_source, owns_qwen3_5_moe_tensor};
constexpr Family kQwen35MoeText{"qwen3_5_moe_text", read_qwen3_5_moe_text_config, qwen3_5_moe_source,
                                owns_qwen3_5_moe_tensor, &kQwen35MoeGguf};

}  // namespace sida
