#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& fields = "") { return parse_family("gpt_oss", fields); }

constexpr const char* kYarn = R"({"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,"truncate":false,)"
                              R"("original_max_position_embeddings":4096,"rope_type":"yarn"})";

TEST_CASE("gpt_oss config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "gpt_oss");
  CHECK(spec.vocab == 201088);
  CHECK(spec.width == 2880);
  CHECK(spec.norm_epsilon == 1e-5f);
  CHECK(spec.context == 131072);
  CHECK(spec.tokens.end.empty());
  CHECK(layer_kinds(spec) == std::string(36, 's'));
  CHECK(spec.experts() == 128);
  CHECK(spec.top_k() == 4);
  CHECK(spec.moe()->expert.width == 2880);
  CHECK(spec.moe()->expert.activation == Activation::kClampedSwiglu);
  CHECK(spec.moe()->expert.biased);
  CHECK(spec.moe()->router.scores == RouterScores::kSoftmaxOfChosen);
  CHECK(spec.moe()->router.biased);
  CHECK(!spec.moe()->shared);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 64);
  CHECK(attention.kv_heads == 8);
  CHECK(attention.head_dim == 64);
  CHECK(attention.scale == 0.125f);
  CHECK(attention.sinks);
  CHECK(attention.biased);
  CHECK(attention.output_biased);
  // YaRN, where the config says nothing of positions.
  const Rope expected =
      rope_of(parse(R"("rope_theta":150000,"rope_scaling":)" + std::string(kYarn)));
  CHECK(rope_of(spec).inverse_frequencies == expected.inverse_frequencies);
  CHECK(rope_of(spec).magnitude == expected.magnitude);
  CHECK(expected.magnitude > 1.3);
}

TEST_CASE("gpt_oss config: a published config is read") {
  const ModelSpec spec = parse(
      R"("attention_bias":true,"eos_token_id":200002,"experts_per_token":4,"head_dim":64,"hidden_act":"silu",)"
      R"("hidden_size":2880,"initial_context_length":4096,"intermediate_size":2880,)"
      R"("max_position_embeddings":131072,"num_attention_heads":64,"num_experts_per_tok":4,)"
      R"("num_hidden_layers":4,"num_key_value_heads":8,"num_local_experts":32,"pad_token_id":199999,)"
      R"("quantization_config":{"quant_method":"mxfp4"},"rms_norm_eps":1e-05,"rope_theta":150000,"swiglu_limit":7.0,)"
      R"("layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],)"
      R"("sliding_window":128,"tie_word_embeddings":false,"vocab_size":201088,"rope_scaling":)" +
      std::string(kYarn));
  CHECK(spec.experts() == 32);
  CHECK(spec.tokens.end == std::vector<int32_t>{200002});
  CHECK(spec.tokens.pad == 199999);
  CHECK(windows_of(spec) == std::vector<size_t>{128, 0, 128, 0});
  CHECK(attention_of(spec).query_width() == 4096);
}

TEST_CASE("gpt_oss config: layer_types says which layers have a window; without it every other one has") {
  const std::string three = R"("num_hidden_layers":3,"sliding_window":16)";
  CHECK(windows_of(parse(three)) == std::vector<size_t>{16, 0, 16});
  CHECK(windows_of(parse(three + R"(,"layer_types":["full_attention","full_attention","sliding_attention"])")) ==
        std::vector<size_t>{0, 0, 16});
  CHECK(windows_of(parse(R"("num_hidden_layers":2)")) == std::vector<size_t>{128, 0});
}

TEST_CASE("gpt_oss config: fields are taken under each of their names") {
  CHECK(parse(R"("num_experts":16)").experts() == 16);
  CHECK(!attention_of(parse(R"("attention_bias":false)")).biased);
  CHECK(!attention_of(parse(R"("attention_bias":false)")).output_biased);
  CHECK(attention_of(parse(R"("hidden_size":64,"num_attention_heads":4,"head_dim":null)")).head_dim == 16);
  CHECK(attention_of(parse(R"("hidden_size":64,"num_attention_heads":4)")).head_dim == 64);
}

TEST_CASE("gpt_oss config: what is out of range or not supported is named") {
  check_refused("gpt_oss",
                {{R"("quantization_config":{"quant_method":"mxfp4"},"hidden_size":2896)",
                  {"\"hidden_size\"", "a multiple of 32", "found 2896"}},
                 {R"("quantization_config":{"quant_method":"mxfp4"},"intermediate_size":48)",
                  {"\"intermediate_size\"", "a multiple of 32", "found 48"}},
                 {R"("swiglu_limit":8.0)", {"\"swiglu_limit\"", "7.0", "found 8"}},
                 {R"("swiglu_alpha":1.5)", {"\"swiglu_alpha\"", "1.702", "found 1.5"}},
                 {R"("sliding_window":0)", {"\"sliding_window\"", "found 0"}},
                 {R"("layer_types":["full_attention"])", {"\"layer_types\"", "each of the 36 layers", "found 1"}},
                 {R"("layer_types":[7])", {"\"layer_types\"", "\"sliding_attention\"", "found 7"}},
                 {R"("head_dim":5)", {"\"head_dim\"", "even", "found 5"}},
                 {R"("rope_scaling":{"rope_type":"longrope"})", {"\"rope_scaling.rope_type\"", "found \"longrope\""}},
                 {R"("num_experts_per_tok":65)", {"\"num_experts_per_tok\"", "from 1 to 64", "found 65"}}});
  CHECK(parse(R"("hidden_size":2896,"intermediate_size":48)").moe()->expert.width == 48);
  CHECK_NOTHROW(parse(R"("swiglu_limit":7.0,"swiglu_alpha":1.702)"));
}

}  // namespace
