#include <string>

#include "model/families/decoder_tensors.h"
#include "model/families/gpt_oss/gpt_oss.h"

namespace sida {
namespace {

/// All experts of a layer lie in one tensor of codes and one of scales. Rows of gates and of ups alternate.
TensorSource expert_source(const ModelSpec& spec, const TensorSlot& slot) {
  const MoeSpec& moe = *spec.stacks[slot.stack].layers[slot.layer].moe();
  const std::string experts = "model.layers." + std::to_string(slot.layer) + ".mlp.experts.";
  const TensorRole role = slot.role;
  const bool down = role == TensorRole::kExpertDown || role == TensorRole::kExpertDownBias;
  const bool up = role == TensorRole::kExpertUp || role == TensorRole::kExpertUpBias;
  const std::string name = experts + (down ? "down_proj" : "gate_up_proj");
  const uint64_t rows = down ? spec.width : 2 * moe.expert.width, columns = down ? moe.expert.width : spec.width;
  TensorSource::Candidate candidate;
  candidate.first_row = slot.expert * rows + (up ? 1 : 0);
  candidate.row_step = down ? 1 : 2;
  if (slot.shape.size() == 1) {
    candidate.name = name + "_bias";
    candidate.shape = {moe.experts, rows};
  } else {
    candidate.name = name + "_blocks";
    candidate.scales = name + "_scales";
    candidate.shape = {moe.experts, rows, columns / 32, 16};
  }
  return {{candidate}};
}

TensorSource gpt_oss_source(const ModelSpec& spec, const TensorSlot& slot) {
  if (slot.form == TensorForm::kExpert) return expert_source(spec, slot);
  const std::string router = "model.layers." + std::to_string(slot.layer) + ".mlp.router.";
  if (slot.role == TensorRole::kRouter) return {{{router + "weight"}}};
  if (slot.role == TensorRole::kRouterBias) return {{{router + "bias"}}};
  return decoder_source(spec, slot);
}

}  // namespace

constexpr Family kGptOss{"gpt_oss", read_gpt_oss_config, gpt_oss_source, owns_decoder_tensor};

}  // namespace sida
