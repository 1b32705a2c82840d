#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

/// Published configs give head_dim.
ModelSpec parse(const std::string& fields = "") {
  return parse_family("glm4_moe", R"("head_dim":128)" + (fields.empty() ? "" : "," + fields));
}

TEST_CASE("glm4_moe config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "glm4_moe");
  CHECK(spec.vocab == 151552);
  CHECK(spec.width == 4096);
  CHECK(spec.norm_epsilon == 1e-5f);
  CHECK(spec.context == 131072);
  CHECK(spec.extra_layers == 1);
  CHECK(spec.tokens.end.empty());
  CHECK(layer_kinds(spec) == "d" + std::string(45, 's'));
  CHECK(dense_width(spec, 0) == 10944);
  CHECK(spec.experts() == 128);
  CHECK(spec.top_k() == 8);
  CHECK(spec.moe()->expert.width == 1408);
  REQUIRE(spec.moe()->shared);
  CHECK(spec.moe()->shared->ffn.width == 1408);
  CHECK(spec.moe()->shared->gate == SharedGate::kNone);
  const RouterSpec& router = spec.moe()->router;
  CHECK(router.scores == RouterScores::kSigmoid);
  CHECK(router.corrected);
  CHECK(router.normalized);
  CHECK(router.scale == 1);
  CHECK(router.groups.count == 1);
  CHECK(router.groups.kept == 1);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 96);
  CHECK(attention.kv_heads == 8);
  CHECK(attention.qk_norm == QkNorm::kNone);
  CHECK(!attention.biased);
  CHECK(rope_of(spec).width() == 64);
  CHECK(!rope_of(spec).adjacent);
}

TEST_CASE("glm4_moe config: a published config is read") {
  const ModelSpec spec = parse(
      R"("attention_bias":true,"eos_token_id":[151329,151336,151338],"first_k_dense_replace":3,"hidden_act":"silu",)"
      R"("hidden_size":5120,"intermediate_size":12288,"max_position_embeddings":202752,"moe_intermediate_size":1536,)"
      R"("n_group":1,"n_routed_experts":160,"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":96,)"
      R"("num_experts_per_tok":8,"num_hidden_layers":92,"num_key_value_heads":8,"num_nextn_predict_layers":1,)"
      R"("pad_token_id":151329,"partial_rotary_factor":0.5,"rms_norm_eps":1e-05,"rope_scaling":null,)"
      R"("rope_theta":1000000,"routed_scaling_factor":2.5,"topk_group":1,"use_qk_norm":true,"vocab_size":151552)");
  CHECK(layer_kinds(spec) == "ddd" + std::string(89, 's'));
  CHECK(spec.extra_layers == 1);
  CHECK(spec.tokens.end == std::vector<int32_t>{151329, 151336, 151338});
  CHECK(spec.moe()->router.scale == 2.5);
  CHECK(attention_of(spec).biased);
  CHECK(!attention_of(spec).output_biased);
  CHECK(attention_of(spec).qk_norm == QkNorm::kHead);
  CHECK(attention_of(spec).query_width() == 96 * 128);
  CHECK(rope_of(spec).width() == 64);
}

TEST_CASE("glm4_moe config: fields are taken under each of their names") {
  CHECK(parse(R"("num_experts":16)").experts() == 16);
  CHECK(parse(R"("n_routed_experts":16,"n_group":4,"topk_group":2)").moe()->router.groups.kept == 2);
  CHECK(!parse(R"("n_shared_experts":0)").moe()->shared);
  CHECK(layer_kinds(parse(R"("num_hidden_layers":2,"first_k_dense_replace":0)")) == "ss");
  CHECK(rope_of(parse(R"("partial_rotary_factor":1.0)")).width() == 128);
  CHECK(rope_of(parse(R"("rope_parameters":{"partial_rotary_factor":0.25})")).width() == 32);
  // 4096 columns of 96 heads: 42 each and some left over, of which 21, with those of their pairs 22, are rotated.
  const ModelSpec derived = parse_family("glm4_moe");
  CHECK(attention_of(derived).head_dim == 42);
  CHECK(rope_of(derived).width() == 22);
}

TEST_CASE("glm4_moe config: what is out of range or not supported is named") {
  check_refused("glm4_moe",
                {{R"("head_dim":128,"partial_rotary_factor":0.0)",
                  {"\"partial_rotary_factor\"", "even number of a head's 128 columns", "found 0"}},
                 {R"("head_dim":128,"partial_rotary_factor":1.5)", {"\"partial_rotary_factor\"", "found 1.5"}},
                 {R"("head_dim":128,"use_qk_norm":1)", {"\"use_qk_norm\"", "true or false"}},
                 {R"("head_dim":128,"n_group":5)", {"\"n_group\"", "of the 128 experts", "found 5"}},
                 {R"("head_dim":128,"scoring_func":"softmax")", {"\"scoring_func\"", "found \"softmax\""}},
                 {R"("head_dim":128,"first_k_dense_replace":257)", {"\"first_k_dense_replace\"", "found 257"}},
                 {R"("head_dim":128,"num_key_value_heads":7)", {"\"num_key_value_heads\"", "96 heads", "found 7"}},
                 {R"("num_attention_heads":95)", {"\"num_attention_heads\"", "even", "found 95"}}});
}

}  // namespace
