#include <cmath>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& fields = "") { return parse_family("deepseek_v3", fields); }

TEST_CASE("deepseek_v3 config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "deepseek_v3");
  CHECK(spec.vocab == 129280);
  CHECK(spec.width == 7168);
  CHECK(spec.norm_epsilon == 1e-6f);
  CHECK(spec.context == 4096);
  CHECK(spec.extra_layers == 1);
  CHECK(spec.tokens.end == std::vector<int32_t>{1});
  CHECK(layer_kinds(spec) == "ddd" + std::string(58, 's'));
  CHECK(dense_width(spec, 0) == 18432);
  CHECK(spec.experts() == 256);
  CHECK(spec.top_k() == 8);
  CHECK(spec.moe()->expert.width == 2048);
  REQUIRE(spec.moe()->shared);
  CHECK(spec.moe()->shared->ffn.width == 2048);
  CHECK(spec.moe()->shared->gate == SharedGate::kNone);
  const RouterSpec& router = spec.moe()->router;
  CHECK(router.scores == RouterScores::kSigmoid);
  CHECK(router.corrected);
  CHECK(router.normalized);
  CHECK(router.scale == 2.5);
  CHECK(router.groups.count == 8);
  CHECK(router.groups.kept == 4);
  CHECK(router.groups.best == 2);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 128);
  CHECK(attention.head_dim == 192);
  REQUIRE(attention.latent);
  CHECK(attention.latent->query_rank == 1536);
  CHECK(attention.latent->rank == 512);
  CHECK(attention.latent->rotary == 64);
  CHECK(attention.latent->value_dim == 128);
  CHECK(attention.scale == static_cast<float>(1 / std::sqrt(192.0)));
  CHECK(rope_of(spec).adjacent);
}

TEST_CASE("deepseek_v3 config: a published config is read") {
  const ModelSpec spec = parse(
      R"("attention_bias":false,"eos_token_id":1,"ep_size":1,"first_k_dense_replace":3,"hidden_act":"silu",)"
      R"("hidden_size":7168,"intermediate_size":18432,"kv_lora_rank":512,"max_position_embeddings":163840,)"
      R"("moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,"n_routed_experts":256,"n_shared_experts":1,)"
      R"("norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":61,)"
      R"("num_key_value_heads":128,"num_nextn_predict_layers":1,"q_lora_rank":1536,"qk_nope_head_dim":128,)"
      R"("qk_rope_head_dim":64,"rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,)"
      R"("mscale":1.0,"mscale_all_dim":1.0,"original_max_position_embeddings":4096,"type":"yarn"},)"
      R"("rope_theta":10000,"routed_scaling_factor":2.5,"scoring_func":"sigmoid","topk_group":4,)"
      R"("topk_method":"noaux_tc","v_head_dim":128,"vocab_size":129280)");
  CHECK(spec.extra_layers == 1);
  CHECK(spec.last().layers.size() == 61);
  const double magnitude = 0.1 * std::log(40.0) + 1;
  CHECK(std::abs(attention_of(spec).scale * std::sqrt(192.0) / (magnitude * magnitude) - 1) < 1e-6);
  CHECK(rope_of(spec).magnitude == 1);
}

TEST_CASE("deepseek_v3 config: fields are taken under each of their names") {
  CHECK(parse(R"("num_local_experts":16)").experts() == 16);
  CHECK(!rope_of(parse(R"("rope_interleave":false)")).adjacent);
  CHECK(attention_of(parse(R"("q_lora_rank":null)")).latent->query_rank == 0);
  CHECK(!parse(R"("norm_topk_prob":false)").moe()->router.normalized);
  CHECK(parse(R"("n_shared_experts":2)").moe()->shared->ffn.width == 4096);
  CHECK(parse(R"("n_group":1,"topk_group":1)").moe()->router.groups.count == 1);
  // The default of topk_group, of no more groups than there are.
  CHECK(parse(R"("n_group":2)").moe()->router.groups.kept == 2);
}

TEST_CASE("deepseek_v3 config: what is out of range or not supported is named") {
  check_refused(
      "deepseek_v3",
      {{R"("scoring_func":"softmax")", {"\"scoring_func\"", "expected \"sigmoid\"", "found \"softmax\""}},
       {R"("topk_method":"greedy")", {"\"topk_method\"", "expected \"noaux_tc\"", "found \"greedy\""}},
       {R"("n_group":3)", {"\"n_group\"", "of the 256 experts", "found 3"}},
       {R"("n_group":256)", {"\"n_group\"", "each of 2 or more", "found 256"}},
       {R"("n_group":257)", {"\"n_group\"", "256", "found 257"}},
       {R"("n_routed_experts":4,"num_experts_per_tok":2)", {"\"n_group\"", "of the 4 experts", "found 8"}},
       {R"("topk_group":9)", {"\"topk_group\"", "from 1 to 8", "found 9"}},
       {R"("n_group":64,"topk_group":1)", {"\"topk_group\"", "at least 8 experts", "found 1 of 4"}},
       {R"("rope_interleave":1)", {"\"rope_interleave\"", "true or false"}},
       {R"("num_nextn_predict_layers":-1)", {"\"num_nextn_predict_layers\"", "found -1"}},
       {R"("qk_rope_head_dim":9)", {"\"qk_rope_head_dim\"", "an even number", "found 9"}}});
}

}  // namespace
