#include <cmath>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

constexpr const char* kTopK = R"("num_experts_per_tok":6)";  // transformers has no default of it

ModelSpec parse(const std::string& fields = "") {
  return parse_family("deepseek_v2", kTopK + (fields.empty() ? "" : "," + fields));
}

TEST_CASE("deepseek_v2 config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "deepseek_v2");
  CHECK(spec.vocab == 102400);
  CHECK(spec.width == 4096);
  CHECK(spec.norm_epsilon == 1e-6f);
  CHECK(spec.context == 2048);
  CHECK(spec.tokens.end == std::vector<int32_t>{2});
  CHECK(layer_kinds(spec) == std::string(32, 's'));
  CHECK(spec.experts() == 64);
  CHECK(spec.top_k() == 6);
  CHECK(spec.moe()->expert.width == 1407);
  REQUIRE(spec.moe()->shared);
  CHECK(spec.moe()->shared->ffn.width == 2 * 1407);
  CHECK(spec.moe()->shared->gate == SharedGate::kNone);
  const RouterSpec& router = spec.moe()->router;
  CHECK(router.scores == RouterScores::kSoftmax);
  CHECK(!router.normalized);
  CHECK(!router.corrected);
  CHECK(router.scale == 1);
  CHECK(router.groups.count == 1);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 32);
  CHECK(attention.kv_heads == 1);
  CHECK(attention.head_dim == 128 + 64);
  REQUIRE(attention.latent);
  CHECK(attention.latent->query_rank == 1536);
  CHECK(attention.latent->rank == 512);
  CHECK(attention.latent->rotary == 64);
  CHECK(attention.latent->value_dim == 128);
  CHECK(attention.latent->norm_epsilon == 1e-6f);
  CHECK(attention.output_width() == 32 * 128);
  CHECK(attention.kv_width() == 576);
  CHECK(attention.scale == static_cast<float>(1 / std::sqrt(192.0)));
  CHECK(rope_of(spec).width() == 64);
  CHECK(rope_of(spec).adjacent);
}

TEST_CASE("deepseek_v2 config: a published config is read") {
  const ModelSpec spec = parse(
      R"("attention_bias":false,"eos_token_id":100001,"first_k_dense_replace":1,"hidden_act":"silu",)"
      R"("hidden_size":2048,"intermediate_size":10944,"kv_lora_rank":512,"max_position_embeddings":163840,)"
      R"("moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,"n_routed_experts":64,"n_shared_experts":2,)"
      R"("norm_topk_prob":false,"num_attention_heads":16,"num_hidden_layers":27,"num_key_value_heads":16,)"
      R"("q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"rms_norm_eps":1e-06,)"
      R"("rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,"mscale":0.707,"mscale_all_dim":0.707,)"
      R"("original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":1.0,)"
      R"("scoring_func":"softmax","topk_group":1,"topk_method":"greedy","v_head_dim":128,"vocab_size":102400)");
  CHECK(layer_kinds(spec) == "d" + std::string(26, 's'));
  CHECK(dense_width(spec, 0) == 10944);
  CHECK(attention_of(spec).latent->query_rank == 0);
  const double magnitude = 0.1 * 0.707 * std::log(40.0) + 1;
  CHECK(std::abs(attention_of(spec).scale * std::sqrt(192.0) / (magnitude * magnitude) - 1) < 1e-6);
  // Of mscale and mscale_all_dim, which are equal.
  CHECK(rope_of(spec).magnitude == 1);
}

TEST_CASE("deepseek_v2 config: groups are read where topk_method asks for them, by their best expert") {
  const std::string fields = R"("n_routed_experts":160,"n_group":8,"topk_group":3,"routed_scaling_factor":16.0)";
  const RouterSpec router = parse(fields + R"(,"topk_method":"group_limited_greedy")").moe()->router;
  CHECK(router.groups.count == 8);
  CHECK(router.groups.kept == 3);
  CHECK(router.groups.best == 1);
  CHECK(router.scale == 16);
  CHECK(!router.normalized);
  CHECK(!parse(R"("norm_topk_prob":true)").moe()->router.normalized);
  CHECK(parse(fields + R"(,"topk_method":"greedy")").moe()->router.groups.count == 1);
  CHECK(parse(R"("n_group":null,"topk_group":null,"topk_method":"group_limited_greedy")").moe()->router.groups.count ==
        1);
}

TEST_CASE("deepseek_v2 config: fields are taken under each of their names") {
  CHECK(parse(R"("num_experts":12)").experts() == 12);
  CHECK(parse(R"("n_routed_experts":12)").experts() == 12);
  CHECK(!parse(R"("n_shared_experts":0)").moe()->shared);
  CHECK(attention_of(parse(R"("q_lora_rank":24)")).latent->query_rank == 24);
  CHECK(attention_of(parse(R"("qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":12)")).query_width() == 32 * 24);
  CHECK(layer_kinds(parse(R"("num_hidden_layers":3,"first_k_dense_replace":2)")) == "dds");
  CHECK(dense_width(parse(R"("num_hidden_layers":3,"first_k_dense_replace":1)"), 0) == 11008);
  CHECK(layer_kinds(parse(R"("num_hidden_layers":2,"first_k_dense_replace":9)")) == "dd");
}

TEST_CASE("deepseek_v2 config: what is out of range or not supported is named") {
  check_refused("deepseek_v2", {{"", {"\"num_experts_per_tok\"", "from 1 to 64", "found none"}}});
  const std::string k = kTopK + std::string(",");
  check_refused(
      "deepseek_v2",
      {{k + R"("mlp_bias":true)", {"\"mlp_bias\"", "expected false", "found true"}},
       {k + R"("scoring_func":"sigmoid")", {"\"scoring_func\"", "expected \"softmax\"", "found \"sigmoid\""}},
       {k + R"("topk_method":"noaux_tc")", {"\"topk_method\"", "\"group_limited_greedy\"", "found \"noaux_tc\""}},
       {k + R"("topk_method":"group_limited_greedy","n_group":7)",
        {"\"n_group\"", "groups of equal size of the 64 experts", "found 7"}},
       {k + R"("topk_method":"group_limited_greedy","n_group":32,"topk_group":2)",
        {"\"topk_group\"", "at least 6 experts", "found 2 of 2"}},
       {k + R"("topk_method":"group_limited_greedy","n_group":8,"topk_group":9)",
        {"\"topk_group\"", "from 1 to 8", "found 9"}},
       {k + R"("num_attention_heads":513)", {"\"num_attention_heads\"", "512", "found 513"}},
       {k + R"("kv_lora_rank":0)", {"\"kv_lora_rank\"", "from 1", "found 0"}},
       {k + R"("q_lora_rank":0)", {"\"q_lora_rank\"", "from 1", "found 0"}},
       {k + R"("qk_rope_head_dim":7)", {"\"qk_rope_head_dim\"", "an even number", "found 7"}},
       {k + R"("qk_nope_head_dim":0)", {"\"qk_nope_head_dim\"", "found 0"}},
       {k + R"("v_head_dim":65537)", {"\"v_head_dim\"", "65536", "found 65537"}},
       {k + R"("n_shared_experts":65)", {"\"n_shared_experts\"", "from 0 to 64", "found 65"}},
       {k + R"("routed_scaling_factor":-1)", {"\"routed_scaling_factor\"", "found -1"}},
       {k + R"("first_k_dense_replace":-1)", {"\"first_k_dense_replace\"", "found -1"}}});
}

}  // namespace
