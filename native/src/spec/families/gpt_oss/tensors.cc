#include <string>

#include "spec/families/decoder_tensors.h"
#include "spec/families/gpt_oss/gpt_oss.h"

namespace sida {
namespace {

/// All experts of a layer lie in one tensor of codes and one of scales, or in one of numbers, which is transposed. Rows
/// of gates and of ups alternate.
TensorSource expert_source(const ModelSpec& spec, const TensorSlot& slot) {
  const MoeSpec& moe = *spec.stacks[slot.stack].layers[slot.layer].moe();
  const std::string experts = "model.layers." + std::to_string(slot.layer) + ".mlp.experts.";
  const TensorRole role = slot.role;
  const bool down = role == TensorRole::kExpertDown || role == TensorRole::kExpertDownBias;
  const bool up = role == TensorRole::kExpertUp || role == TensorRole::kExpertUpBias;
  const std::string name = experts + (down ? "down_proj" : "gate_up_proj");
  const uint64_t rows = down ? spec.width : 2 * moe.expert.width, columns = down ? moe.expert.width : spec.width;
  const uint64_t first = up ? 1 : 0, step = down ? 1 : 2, row = slot.expert * rows + first;
  if (slot.shape.size() == 1) {
    return {{{.name = name + "_bias", .shape = {moe.experts, rows}, .first_row = row, .row_step = step}}};
  }
  return {{{.name = name + "_blocks",
            .shape = {moe.experts, rows, columns / 32, 16},
            .first_row = row,
            .row_step = step,
            .scales = name + "_scales"},
           {.name = name,
            .shape = {moe.experts, columns, rows},
            .first_row = slot.expert * columns,
            .row_step = step,
            .transposed = true,
            .first_column = first}}};
}

TensorSource gpt_oss_source(const ModelSpec& spec, const TensorSlot& slot) {
  if (slot.form == TensorForm::kExpert) return expert_source(spec, slot);
  const std::string router = "model.layers." + std::to_string(slot.layer) + ".mlp.router.";
  if (slot.role == TensorRole::kRouter) return {{{router + "weight"}}};
  if (slot.role == TensorRole::kRouterBias) return {{{router + "bias"}}};
  return decoder_source(spec, slot);
}

}  // namespace

constexpr Family kGptOss{"gpt_oss", read_gpt_oss_config, gpt_oss_source, owns_decoder_tensor, &kGptOssGguf};

}  // namespace sida
