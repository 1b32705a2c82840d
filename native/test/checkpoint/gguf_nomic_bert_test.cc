// Metadata of nomic-bert-moe, an encoder alone.
#include "support/gguf_models.h"

namespace {

/// A nomic model of one dense and one MoE layer. `separate`: queries, keys and values have tensors of their own.
GgufBuilder nomic(bool separate = false) {
  GgufBuilder file;
  const std::string prefix = "nomic-bert-moe.";
  file.text("general.architecture", "nomic-bert-moe").u32("tokenizer.ggml.padding_token_id", 1);
  file.u32(prefix + "block_count", 2).u32(prefix + "context_length", 64).u32(prefix + "embedding_length", kWidth);
  file.u32(prefix + "feed_forward_length", kHidden).u32(prefix + "attention.head_count", 2);
  file.u32(prefix + "expert_count", kExperts).u32(prefix + "expert_used_count", 1);
  file.u32(prefix + "moe_every_n_layers", 2).f32(prefix + "attention.layer_norm_epsilon", 1e-5f);
  file.zeros("token_embd.weight", {kWidth, kVocab}).zeros("token_types.weight", {kWidth, 1});
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape, bool biased = true) {
    file.zeros(name + ".weight", shape);
    if (biased) file.zeros(name + ".bias", {shape.back()});
  };
  add("token_embd_norm", {kWidth});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
      if (separate) add(layer + name, {kWidth, kWidth});
    }
    if (!separate) add(layer + "attn_qkv", {kWidth, 3 * kWidth});
    add(layer + "attn_output", {kWidth, kWidth});
    for (const char* norm : {"attn_output_norm", "layer_output_norm"}) add(layer + norm, {kWidth});
  }
  add("blk.0.ffn_up", {kWidth, kHidden});
  add("blk.0.ffn_down", {kHidden, kWidth});
  add("blk.1.ffn_gate_inp", {kWidth, kExperts}, false);
  add("blk.1.ffn_up_exps", {kWidth, kHidden, kExperts}, false);
  add("blk.1.ffn_down_exps", {kHidden, kWidth, kExperts}, false);
  return file;
}

TEST_CASE("gguf models: an encoder alone, with projections in one tensor or in three") {
  for (const bool separate : {false, true}) {
    CASE(separate);
    const Checkpoint checkpoint = open(nomic(separate));
    const ModelSpec& spec = checkpoint.spec();
    CHECK(spec.family == "nomic_bert");
    CHECK_FALSE(spec.head.present);
    CHECK_FALSE(spec.stacks[0].causal);
    CHECK_FALSE(spec.moe()->biased);
    CHECK(std::get<FfnSpec>(spec.stacks[0].layers[0].feed_forward).biased);
    CHECK(spec.tokens.pad == 1);
  }
}

TEST_CASE("gguf models: encoders of other kinds are refused by their keys") {
  const std::string prefix = "nomic-bert-moe.";
  const auto refused = [&](const std::function<void(GgufBuilder&)>& change, const std::vector<std::string>& parts) {
    GgufBuilder file = nomic();
    change(file);
    check_refused(file, parts);
  };
  using File = GgufBuilder&;
  refused([&](File f) { f.raw(prefix + "attention.causal", 7, "\1"); }, {prefix + "attention.causal", "only encoders"});
  for (const uint32_t pooling : {0u, 2u, 3u}) {
    refused([&](File f) { f.u32(prefix + "pooling_type", pooling); },
            {prefix + "pooling_type", "mean of all tokens", "found " + std::to_string(pooling)});
  }
  refused([&](File f) { f.u32(prefix + "attention.key_length", 2).u32(prefix + "attention.value_length", 2); },
          {prefix + "attention.key_length", "embedding_length / attention.head_count", "found 2"});
  refused([](File f) { drop(f, "token_types.weight"); }, {"token_types.weight", "missing tensor"});
  CHECK_NOTHROW(open(nomic().u32(prefix + "pooling_type", 1).raw(prefix + "attention.causal", 7, std::string(1, 0))));
}

}  // namespace
