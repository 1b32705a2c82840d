#include <string>
#include <vector>

#include "spec/families/config_limits.h"
#include "spec/families/qwen_delta.h"

namespace sida {
namespace {

DeltaSpec read_delta(const ConfigReader& reader, bool tiled) {
  DeltaSpec delta;
  delta.key_heads = read_count(reader, "linear_num_key_heads", kMaxDeltaHeads, 16);
  delta.value_heads = read_count(reader, "linear_num_value_heads", kMaxDeltaHeads, 32);
  delta.key_dim = read_count(reader, "linear_key_head_dim", kMaxDeltaDim, 128);
  delta.value_dim = read_count(reader, "linear_value_head_dim", kMaxDeltaDim, 128);
  delta.taps = read_count(reader, "linear_conv_kernel_dim", static_cast<int>(DeltaSpec::kMostTaps), 4);
  delta.tiled = tiled;
  if (delta.value_heads % delta.key_heads == 0) return delta;
  throw reader.fault("linear_num_value_heads",
                     "a multiple of the " + std::to_string(delta.key_heads) + " heads of \"linear_num_key_heads\"",
                     std::to_string(delta.value_heads), "");
}

/// By layer whether it has a delta rule.
std::vector<bool> read_delta_layers(const ConfigReader& reader, size_t layers) {
  std::vector<bool> rules;
  if (const auto types = reader.choices("layer_types", {"full_attention", "linear_attention"}, kMaxLayers)) {
    if (types->size() != layers) {
      throw reader.fault("layer_types", "one for each of the " + std::to_string(layers) + " layers",
                         std::to_string(types->size()), "");
    }
    for (const size_t type : *types) rules.push_back(type == 1);
  } else {
    const size_t interval = read_count(reader, "full_attention_interval", kMaxLayers, 4);
    for (size_t layer = 0; layer < layers; ++layer) rules.push_back((layer + 1) % interval != 0);
  }
  for (const bool rule : rules) {
    if (!rule) return rules;
  }
  throw reader.fault("layer_types", "a layer of \"full_attention\"", "none", "such models are not supported");
}

}  // namespace

ModelSpec read_qwen_delta(const ConfigReader& reader, const QwenDeltaDefaults& defaults) {
  const DecoderDefaults& decoder = defaults.decoder;
  ModelSpec spec = read_decoder(reader, decoder);
  MoeSpec moe = read_moe(reader, {defaults.experts, defaults.top_k, "moe_intermediate_size", 512});
  moe.router.normalized = reader.boolean("norm_topk_prob", true);
  const size_t shared = read_count(reader, "shared_expert_intermediate_size", kMaxFfnWidth, 512);
  moe.shared = SharedExpertSpec{{shared, Activation::kSwiglu}, SharedGate::kSigmoid};
  AttentionSpec attention = read_heads(reader, spec.width, decoder, HeadDim::kOwn);
  attention.qk_norm = QkNorm::kHead;
  attention.gated = true;
  reader.require_false("attention_bias", "biases of gated attention are not supported");
  if (!reader.boolean("attn_output_gate", true)) {
    throw reader.fault("attn_output_gate", "true", "false", "attention without gates is not supported");
  }
  StackSpec stack = decoder_stack(reader, decoder, {attention, std::nullopt, moe});
  const DeltaSpec delta = read_delta(reader, defaults.tiled);
  const std::vector<bool> rules = read_delta_layers(reader, stack.layers.size());
  for (size_t layer = 0; layer < rules.size(); ++layer) {
    if (rules[layer]) stack.layers[layer].delta = delta;
  }
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
