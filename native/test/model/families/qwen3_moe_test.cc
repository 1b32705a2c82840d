#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& fields = "") { return parse_family("qwen3_moe", fields); }

TEST_CASE("qwen3_moe config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "qwen3_moe");
  CHECK(spec.vocab == 151936);
  CHECK(spec.width == 2048);
  CHECK(spec.norm_epsilon == 1e-6f);
  CHECK(spec.context == 32768);
  CHECK(spec.tokens.end.empty());
  CHECK(layer_kinds(spec) == std::string(24, 's'));
  CHECK(spec.experts() == 128);
  CHECK(spec.top_k() == 8);
  CHECK(spec.moe()->expert.width == 768);
  CHECK(!spec.moe()->router.normalized);
  CHECK(!spec.moe()->shared);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 32);
  CHECK(attention.kv_heads == 4);
  CHECK(attention.head_dim == 64);
  CHECK(attention.qk_norm == QkNorm::kHead);
  CHECK(!attention.biased);
  CHECK(!attention.output_biased);
  CHECK(windows_of(spec) == std::vector<size_t>(24));
}

TEST_CASE("qwen3_moe config: a published config is read") {
  const ModelSpec spec = parse(
      R"("attention_bias":false,"decoder_sparse_step":1,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu",)"
      R"("hidden_size":2048,"intermediate_size":6144,"max_position_embeddings":40960,"max_window_layers":48,)"
      R"("mlp_only_layers":[],"moe_intermediate_size":768,"norm_topk_prob":true,"num_attention_heads":32,)"
      R"("num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,)"
      R"("rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000.0,"sliding_window":null,)"
      R"("tie_word_embeddings":false,"use_sliding_window":false,"vocab_size":151936)");
  CHECK(layer_kinds(spec) == std::string(48, 's'));
  CHECK(spec.context == 40960);
  CHECK(spec.tokens.end == std::vector<int32_t>{151645});
  CHECK(spec.moe()->router.normalized);
  CHECK(attention_of(spec).query_width() == 4096);
  CHECK(attention_of(spec).kv_width() == 512);
  CHECK(attention_of(spec).scale == 0.08838834764831845f);
}

TEST_CASE("qwen3_moe config: fields make layers dense, biased or narrow") {
  const std::string four = R"("num_hidden_layers":4)";
  CHECK(layer_kinds(parse(four + R"(,"decoder_sparse_step":2)")) == "dsds");
  CHECK(layer_kinds(parse(four + R"(,"mlp_only_layers":[1])")) == "sdss");
  CHECK(dense_width(parse(four + R"(,"mlp_only_layers":[1])"), 1) == 6144);
  CHECK(attention_of(parse(R"("attention_bias":true)")).biased);
  CHECK(attention_of(parse(R"("attention_bias":true)")).output_biased);
  CHECK(parse(R"("num_local_experts":16)").experts() == 16);
  // All layers, without a list of them.
  CHECK(windows_of(parse(four + R"(,"use_sliding_window":true,"sliding_window":32)")) == std::vector<size_t>(4, 32));
  CHECK(windows_of(parse(four + R"(,"use_sliding_window":true)")) == std::vector<size_t>(4, 4096));
  CHECK(windows_of(parse(four + R"(,"use_sliding_window":true,"sliding_window":null)")) == std::vector<size_t>(4));
  CHECK(windows_of(parse(four + R"(,"sliding_window":32)")) == std::vector<size_t>(4));
}

TEST_CASE("qwen3_moe config: what is out of range or not supported is named") {
  check_refused("qwen3_moe",
                {{R"("head_dim":127)", {"\"head_dim\"", "even", "found 127"}},
                 {R"("attention_bias":"no")", {"\"attention_bias\"", "true or false", "found \"no\""}},
                 {R"("mlp_only_layers":[0.5])", {"\"mlp_only_layers\"", "found 0.5"}},
                 {R"("decoder_sparse_step":257)", {"\"decoder_sparse_step\"", "256", "found 257"}},
                 {R"("use_sliding_window":"yes")", {"\"use_sliding_window\"", "true or false"}},
                 {R"("moe_intermediate_size":0)", {"\"moe_intermediate_size\"", "found 0"}},
                 {R"("num_experts":7)", {"\"num_experts_per_tok\"", "from 1 to 7", "found none, which is 8"}},
                 {R"("hidden_act":"gelu")", {"\"hidden_act\"", "expected \"silu\"", "found \"gelu\""}}});
}

}  // namespace
