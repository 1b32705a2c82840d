#include <string>
#include <vector>

#include "spec/families/qwen_delta.h"

namespace sida {
namespace {

/// By layer whether it has a delta rule.
std::vector<bool> gguf_delta_layers(const GgufModel& model, uint64_t layers) {
  std::vector<bool> rules;
  if (const auto list = model.list("attention.recurrent_layers")) {
    if (list->size() < layers) {
      throw model.fault("attention.recurrent_layers", "one for each of the " + std::to_string(layers) + " layers",
                        std::to_string(list->size()));
    }
    for (uint64_t layer = 0; layer < layers; ++layer) rules.push_back((*list)[layer] != 0);
    return rules;
  }
  const uint64_t interval = model.count("full_attention_interval").value_or(4);
  if (interval == 0) throw model.fault("full_attention_interval", "one or more", "0");
  for (uint64_t layer = 0; layer < layers; ++layer) rules.push_back((layer + 1) % interval != 0);
  return rules;
}

/// A number of a delta rule. Out of range it is named as the file names it, not as the config that is made of it does.
uint64_t count_within(const GgufModel& model, const char* key, uint64_t most) {
  const uint64_t count = model.need_count(key);
  if (count > 0 && count <= most) return count;
  throw model.fault(key, "a number from 1 to " + std::to_string(most), std::to_string(count));
}

}  // namespace

void set_qwen_delta(const GgufModel& model, GgufConfig& config) {
  config.set_heads();
  config.set_rope();
  config.set_rotated_share();
  config.set("moe_intermediate_size", model.expert_width());
  config.set("shared_expert_intermediate_size", model.need_count("expert_shared_feed_forward_length"));
  config.set_flag("norm_topk_prob", model.flag("expert_weights_norm").value_or(true));
  const uint64_t heads = count_within(model, "ssm.time_step_rank", kMaxDeltaHeads);
  const uint64_t inner = count_within(model, "ssm.inner_size", kMaxDeltaDim * heads);
  if (inner % heads != 0) {
    throw model.fault("ssm.inner_size", "a multiple of \"ssm.time_step_rank\", " + std::to_string(heads),
                      std::to_string(inner));
  }
  config.set("linear_num_key_heads", count_within(model, "ssm.group_count", kMaxDeltaHeads));
  config.set("linear_num_value_heads", heads);
  config.set("linear_key_head_dim", count_within(model, "ssm.state_size", kMaxDeltaDim));
  config.set("linear_value_head_dim", inner / heads);
  config.set("linear_conv_kernel_dim", count_within(model, "ssm.conv_kernel", DeltaSpec::kMostTaps));
  config.set_layer_types(gguf_delta_layers(model, config.layers()), "linear_attention");
  // llama.cpp multiplies the experts' outputs by it.
  const auto scale = model.real("expert_weights_scale");
  if (scale && *scale != "0" && *scale != "1") {
    throw model.fault("expert_weights_scale", "1", *scale, "a factor of the experts' outputs is not supported");
  }
}

}  // namespace sida
