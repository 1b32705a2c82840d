#include <string>

#include "spec/epilogue.h"
#include "spec/families/config_limits.h"
#include "spec/families/decoder_config.h"
#include "spec/families/gpt_oss/gpt_oss.h"

namespace sida {
namespace {

constexpr const char* kRope = R"({"rope_type":"yarn","factor":32,"beta_fast":32,"beta_slow":1,"truncate":false,)"
                              R"("original_max_position_embeddings":4096})";

constexpr double kSlope = 1.702;  // kGateSlope before it is rounded to float32

/// MXFP4 has groups of 32 inputs. A checkpoint whose config does not say that it is quantized may have any width.
void check_groups(const ConfigReader& reader, const char* name, size_t inputs) {
  if (inputs % 32 == 0 || !reader.field("quantization_config")) return;
  throw reader.fault(name, "a multiple of 32, since MXFP4 has groups of 32 inputs", std::to_string(inputs), "");
}

MoeSpec read_experts(const ConfigReader& reader) {
  MoeSpec moe = read_moe(reader, {128, 4, "intermediate_size", 2880});
  check_groups(reader, "intermediate_size", moe.expert.width);
  reader.real("swiglu_limit", kGateLimit, kGateLimit, kGateLimit);
  reader.real("swiglu_alpha", kSlope, kSlope, kSlope);
  moe.expert.activation = Activation::kClampedSwiglu;
  moe.expert.biased = true;
  moe.router.scores = RouterScores::kSoftmaxOfChosen;
  moe.router.biased = true;
  return moe;
}

/// Without a list every other layer has a window, the first one of them.
void read_windows(const ConfigReader& reader, StackSpec& stack) {
  const size_t window = read_count(reader, "sliding_window", kMaxCount, 128);
  const auto types = read_layer_types(reader, stack.layers.size());
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    if (types ? (*types)[layer] : layer % 2 == 0) stack.layers[layer].self.window = window;
  }
}

}  // namespace

ModelSpec read_gpt_oss_config(const ConfigReader& reader) {
  const DecoderDefaults defaults{.vocab = 201088,
                                 .width = 2880,
                                 .layers = 36,
                                 .heads = 64,
                                 .kv_heads = 8,
                                 .context = 131072,
                                 .epsilon = 1e-5,
                                 .theta = 150000,
                                 .head_dim = 64,
                                 .rope = kRope};
  ModelSpec spec = read_decoder(reader, defaults);
  check_groups(reader, "hidden_size", spec.width);
  AttentionSpec attention = read_heads(reader, spec.width, defaults, HeadDim::kOwn);
  attention.biased = attention.output_biased = reader.boolean("attention_bias", true);
  attention.sinks = true;
  StackSpec stack = decoder_stack(reader, defaults, {attention, std::nullopt, read_experts(reader)});
  read_windows(reader, stack);
  spec.stacks.push_back(std::move(stack));
  return spec;
}

}  // namespace sida
