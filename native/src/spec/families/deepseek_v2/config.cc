#include "spec/families/config_limits.h"
#include "spec/families/deepseek_v2/deepseek_v2.h"
#include "spec/families/latent_config.h"
#include "spec/families/sigmoid_router.h"

namespace sida {
namespace {

constexpr double kMaxRoutedScale = 1e6;

void read_router(const ConfigReader& reader, MoeSpec& moe) {
  reader.require_text("scoring_func", "softmax", "other scores of the router are not of this family");
  // transformers reads "norm_topk_prob" and does not use it.
  moe.router.scale = reader.real("routed_scaling_factor", 0, kMaxRoutedScale, 1);
  const auto method = reader.choice("topk_method", {"greedy", "group_limited_greedy"}).value_or(0);
  if (method == 1) moe.router.groups = read_groups(reader, moe, 1, 1, 1);
}

}  // namespace

ModelSpec read_deepseek_v2_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 102400,
                                 .width = 4096,
                                 .layers = 32,
                                 .heads = 32,
                                 .kv_heads = 32,
                                 .context = 2048,
                                 .epsilon = 1e-6,
                                 .end = {2}};
  reader.require_false("mlp_bias", "biases of dense layers are not supported");
  ModelSpec spec = read_decoder(reader, defaults);
  MoeSpec moe = read_moe(reader, {64, 0, "moe_intermediate_size", 1407});
  read_router(reader, moe);
  read_shared_experts(reader, 2, moe);
  const AttentionSpec attention = read_latent_attention(reader, defaults, {1536, 512, 64, 128, 128});
  StackSpec stack = latent_stack(reader, defaults, true, {attention, std::nullopt, moe});
  make_first_layers_dense(reader, 0, 11008, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
