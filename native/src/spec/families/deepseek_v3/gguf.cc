#include "spec/families/deepseek_v3/deepseek_v3.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/latent_gguf.h"

namespace sida {
namespace {

std::string deepseek_v3_config(const GgufModel& model) {
  GgufConfig config(model, "deepseek_v3");
  set_latent_config(model, config);
  set_router_config(model, config);
  config.set_flag("norm_topk_prob", model.flag("expert_weights_norm").value_or(false));
  return config.text();
}

}  // namespace

constexpr GgufForm kDeepseekV3Gguf{"deepseek2", has_sigmoid_router, deepseek_v3_config, gguf_latent_source};

}  // namespace sida
