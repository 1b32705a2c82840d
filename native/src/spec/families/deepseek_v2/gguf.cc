#include "spec/families/deepseek_v2/deepseek_v2.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/latent_gguf.h"

namespace sida {
namespace {

bool is_deepseek_v2(const GgufModel& model) { return !has_sigmoid_router(model); }

std::string deepseek_v2_config(const GgufModel& model) {
  GgufConfig config(model, "deepseek_v2");
  set_latent_config(model, config);
  set_router_config(model, config);
  if (model.flag("expert_weights_norm").value_or(false)) {
    throw model.fault("expert_weights_norm", "false", "true", "other routers are not of this family");
  }
  const bool grouped = model.count("expert_group_count").value_or(1) > 1;
  config.set_text("topk_method", grouped ? "group_limited_greedy" : "greedy");
  return config.text();
}

}  // namespace

constexpr GgufForm kDeepseekV2Gguf{"deepseek2", is_deepseek_v2, deepseek_v2_config, gguf_latent_source};

}  // namespace sida
