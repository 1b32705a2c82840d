#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/checkpoint_directory.h"
#include "support/family_config.h"
#include "support/test_pack.h"
#include "support/tiny_model.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& fields = "") { return parse_family("nllb-moe", fields); }

TEST_CASE("nllb-moe config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "nllb-moe");
  CHECK(spec.vocab == 128112);
  CHECK(spec.width == 1024);
  CHECK(spec.embedding_scale == 32);
  CHECK(spec.norm == NormKind::kLayer);
  CHECK(spec.norm_epsilon == 1e-5f);
  CHECK(spec.context == 1024);
  CHECK(spec.head.tied);
  CHECK(spec.head.scale == 1);
  CHECK(spec.tokens.start == 2);
  CHECK(spec.tokens.end == std::vector<int32_t>{2});
  CHECK(spec.tokens.pad == 1);
  CHECK(spec.moe_layers() == std::vector<std::string>{"encoder.3", "encoder.7", "encoder.11", "decoder.3", "decoder.7",
                                                      "decoder.11"});
  CHECK(spec.experts() == 128);
  CHECK(spec.moe()->expert.width == 4096);
  CHECK(spec.moe()->expert.activation == Activation::kRelu);
  CHECK(spec.moe()->expert.biased);
  CHECK(!spec.moe()->shared);
  const RouterSpec& router = spec.moe()->router;
  CHECK(router.top_k == 2);
  CHECK(router.scores == RouterScores::kSoftmax);
  CHECK(router.normalized);
  CHECK(!router.biased);
  CHECK(router.scale == 0.8);
  CHECK(router.capacity == RouterSpec::kNoCapacity);
  REQUIRE(spec.stacks.size() == 2);
  for (const StackSpec& stack : spec.stacks) {
    const bool decoder = stack.name == "decoder";
    CHECK(stack.causal == decoder);
    REQUIRE(stack.layers.size() == 12);
    for (const LayerSpec& layer : stack.layers) {
      CHECK(layer.cross.has_value() == decoder);
      for (const AttentionSpec& attention : {layer.self, layer.cross.value_or(layer.self)}) {
        CHECK(attention.heads == 16);
        CHECK(attention.kv_heads == 16);
        CHECK(attention.head_dim == 64);
        CHECK(attention.scale == 0.125f);
        CHECK(attention.biased);
        CHECK(attention.output_biased);
      }
      if (layer.moe() == nullptr) CHECK(std::get<FfnSpec>(layer.feed_forward).biased);
    }
  }
}

TEST_CASE("nllb-moe config: frequencies fall from 1 to 1/10000 over half the columns") {
  const ModelSpec spec = parse();
  for (const StackSpec& stack : spec.stacks) {
    const auto& positions = std::get<Sinusoids>(stack.positions);
    CHECK(positions.pad == 1);
    REQUIRE(positions.frequencies.size() == 512);
    for (size_t j = 0; j < 512; ++j) {
      const double expected = std::exp(-static_cast<double>(j) * std::log(10000.0) / 511);
      CHECK(positions.frequencies[j] == doctest::Approx(expected).epsilon(2e-6));
    }
  }
  CHECK(std::get<Sinusoids>(parse(R"("d_model":9,"encoder_attention_heads":3,"decoder_attention_heads":3)")
                                .stacks[0]
                                .positions)
            .frequencies.size() == 4);
}

TEST_CASE("nllb-moe config: a published config is read") {
  const ModelSpec spec = parse(
      R"("activation_dropout":0.0,"activation_function":"relu","architectures":["NllbMoeForConditionalGeneration"],)"
      R"("attention_dropout":0.1,"batch_prioritized_routing":false,"bos_token_id":0,"d_model":2048,)"
      R"("decoder_attention_heads":16,"decoder_ffn_dim":8192,"decoder_layerdrop":0,"decoder_layers":24,)"
      R"("decoder_sparse_step":4,"decoder_start_token_id":2,"dropout":0.1,"encoder_attention_heads":16,)"
      R"("encoder_ffn_dim":8192,"encoder_layerdrop":0,"encoder_layers":24,"encoder_sparse_step":4,"eos_token_id":2,)"
      R"("expert_capacity":64,"init_std":0.02,"is_encoder_decoder":true,"max_length":200,)"
      R"("max_position_embeddings":1024,"moe_eval_capacity_token_fraction":1.0,"moe_token_dropout":0.2,)"
      R"("normalize_router_prob_before_dropping":true,"num_experts":128,"num_hidden_layers":24,)"
      R"("output_router_logits":false,"pad_token_id":1,"router_bias":false,"router_dtype":"float32",)"
      R"("router_ignore_padding_tokens":false,"router_type":"tokens_masked","scale_embedding":true,)"
      R"("second_expert_policy":"all","use_cache":true,"vocab_size":256206)");
  CHECK(spec.vocab == 256206);
  CHECK(spec.embedding_scale == doctest::Approx(std::sqrt(2048.0)));
  CHECK(spec.moe_layer_count() == 12);
  CHECK(spec.stacks[1].layers[0].self.head_dim == 128);
  CHECK(spec.moe()->expert.width == 8192);
}

TEST_CASE("nllb-moe config: fields that change the model") {
  CHECK(parse(R"("scale_embedding":false)").embedding_scale == 1);
  CHECK(parse(R"("moe_token_dropout":0)").moe()->router.scale == 1);
  CHECK(parse(R"("router_bias":true)").moe()->router.biased);
  CHECK(parse(R"("decoder_start_token_id":7,"eos_token_id":[3,4])").tokens.end == std::vector<int32_t>{3, 4});
  const ModelSpec steps = parse(
      R"("encoder_layers":4,"encoder_sparse_step":2,"decoder_layers":3,"decoder_sparse_step":1,"pad_token_id":5)");
  CHECK(steps.moe_layers() ==
        std::vector<std::string>{"encoder.1", "encoder.3", "decoder.0", "decoder.1", "decoder.2"});
  CHECK(std::get<Sinusoids>(steps.stacks[0].positions).pad == 5);
  // Networks of stacks may differ where only one stack has experts.
  const ModelSpec one = parse(R"("encoder_sparse_step":0,"encoder_ffn_dim":96,"decoder_ffn_dim":64)");
  CHECK(one.moe_layers().size() == 3);
  CHECK(one.moe()->expert.width == 64);
  CHECK(std::get<FfnSpec>(one.stacks[0].layers[0].feed_forward).width == 96);
}

TEST_CASE("nllb-moe config: what is out of range or not supported is named") {
  check_refused("nllb-moe",
                {{R"("activation_function":"gelu")", {"\"activation_function\"", "expected \"relu\"", "gelu"}},
                 {R"("router_dtype":"bfloat16")", {"\"router_dtype\"", "expected \"float32\"", "bfloat16"}},
                 {R"("second_expert_policy":"sampling")", {"\"second_expert_policy\"", "expected \"all\""}},
                 {R"("batch_prioritized_routing":true)", {"\"batch_prioritized_routing\"", "expected false"}},
                 {R"("moe_eval_capacity_token_fraction":0.5)",
                  {"\"moe_eval_capacity_token_fraction\"", "expected 1", "found 0.5"}},
                 {R"("moe_eval_capacity_token_fraction":-1.0)", {"\"moe_eval_capacity_token_fraction\"", "found -1"}},
                 {R"("moe_token_dropout":1.5)", {"\"moe_token_dropout\"", "found 1.5"}},
                 {R"("tie_word_embeddings":false)", {"\"tie_word_embeddings\"", "expected true"}},
                 {R"("scale_embedding":1)", {"\"scale_embedding\"", "true or false", "found 1"}},
                 {R"("router_bias":"no")", {"\"router_bias\"", "true or false"}},
                 {R"("d_model":2)", {"\"d_model\"", "from 4", "found 2"}},
                 {R"("d_model":1000)", {"\"encoder_attention_heads\"", "1000 columns of d_model", "found 16"}},
                 {R"("decoder_attention_heads":8)", {"\"decoder_attention_heads\"", "expected 16", "found 8"}},
                 {R"("encoder_attention_heads":0)", {"\"encoder_attention_heads\"", "found 0"}},
                 {R"("decoder_ffn_dim":1024)", {"\"decoder_ffn_dim\"", "expected 4096", "found 1024"}},
                 {R"("encoder_ffn_dim":0)", {"\"encoder_ffn_dim\"", "found 0"}},
                 {R"("num_experts":1)", {"\"num_experts\"", "from 2 to 65535", "found 1"}},
                 {R"("num_experts":65536)", {"\"num_experts\"", "found 65536"}},
                 {R"("encoder_layers":0)", {"\"encoder_layers\"", "found 0"}},
                 {R"("decoder_layers":257)", {"\"decoder_layers\"", "256", "found 257"}},
                 {R"("decoder_sparse_step":-1)", {"\"decoder_sparse_step\"", "found -1"}},
                 {R"("max_position_embeddings":0)", {"\"max_position_embeddings\"", "found 0"}},
                 {R"("vocab_size":0)", {"\"vocab_size\"", "found 0"}},
                 {R"("pad_token_id":null)", {"\"pad_token_id\"", "a token id", "found null"}},
                 {R"("pad_token_id":128112)", {"\"pad_token_id\"", "128111", "found 128112"}},
                 {R"("decoder_start_token_id":-1)", {"\"decoder_start_token_id\"", "found -1"}},
                 {R"("eos_token_id":[2,"3"])", {"\"eos_token_id\"", "a whole number", "found \"3\""}}});
}

using Tensors = std::vector<BuiltTensor>;

void check(const std::string& config, const Tensors& tensors) {
  const CheckpointDirectory model(config);
  model.write_tensors(tensors);
  model.open().check_tensors();
}

TEST_CASE("nllb-moe tensors: names and shapes are those of the hub, and each that is missing is named") {
  struct Row {
    std::string name;
    std::vector<uint64_t> shape;
  };
  const Row rows[] = {
      {"model.shared.weight", {10, 8}},
      {"model.encoder.layer_norm.bias", {8}},
      {"model.decoder.layer_norm.weight", {8}},
      {"model.encoder.layers.0.self_attn_layer_norm.bias", {8}},
      {"model.encoder.layers.0.self_attn.out_proj.bias", {8}},
      {"model.encoder.layers.0.ffn.fc1.weight", {6, 8}},
      {"model.encoder.layers.0.ffn.fc1.bias", {6}},
      {"model.encoder.layers.0.ffn.fc2.bias", {8}},
      {"model.encoder.layers.1.ff_layer_norm.weight", {8}},
      {"model.encoder.layers.1.ffn.router.classifier.weight", {3, 8}},
      {"model.encoder.layers.1.ffn.router.classifier.bias", {3}},
      {"model.encoder.layers.1.ffn.experts.expert_2.fc1.weight", {6, 8}},
      {"model.encoder.layers.1.ffn.experts.expert_2.fc1.bias", {6}},
      {"model.encoder.layers.1.ffn.experts.expert_2.fc2.weight", {8, 6}},
      {"model.decoder.layers.1.ffn.experts.expert_0.fc2.bias", {8}},
      {"model.decoder.layers.1.self_attn.k_proj.bias", {8}},
      {"model.decoder.layers.1.cross_attention_layer_norm.bias", {8}},
      {"model.decoder.layers.1.cross_attention.q_proj.weight", {8, 8}},
      {"model.decoder.layers.1.cross_attention.v_proj.bias", {8}},
      {"model.decoder.layers.1.cross_attention.out_proj.bias", {8}},
  };
  const std::string config = tiny_nllb_config(R"("router_bias":true)");
  const Tensors all = tiny_tensors(config);
  CHECK_NOTHROW(check(config, all));
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& tensor) { return tensor.name == row.name; });
    REQUIRE(found != all.end());
    CHECK(found->shape == row.shape);
  }
  for (const BuiltTensor& left_out : all) {
    CAPTURE(left_out.name);
    Tensors tensors = all;
    std::erase_if(tensors, [&](const BuiltTensor& tensor) { return tensor.name == left_out.name; });
    check_has(error_of([&] { check(config, tensors); }), {"tensor \"" + left_out.name + "\"", "missing tensor"});
  }
}

TEST_CASE("nllb-moe tensors: the embedding may have any of its names, and tensors of no layer are refused") {
  const std::string config = tiny_nllb_config();
  for (const char* name : {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
                           "lm_head.weight"}) {
    CAPTURE(std::string(name));
    Tensors tensors = tiny_tensors(config);
    REQUIRE(tensors[0].name == "model.shared.weight");
    tensors.push_back(zeros(name, {10, 8}));
    CHECK_NOTHROW(check(config, tensors));
    tensors.erase(tensors.begin());
    CHECK_NOTHROW(check(config, tensors));
  }
  Tensors tensors = tiny_tensors(config);
  tensors.push_back(zeros("model.encoder.embed_positions.weights", {66, 8}));
  CHECK_NOTHROW(check(config, tensors));
  tensors.push_back(zeros("model.encoder.layers.2.ffn.fc1.weight", {6, 8}));
  check_has(error_of([&] { check(config, tensors); }), {"model.encoder.layers.2.ffn.fc1.weight", "not of the model"});
}

}  // namespace
