#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& fields = "") { return parse_family("qwen2_moe", fields); }

TEST_CASE("qwen2_moe config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "qwen2_moe");
  CHECK(spec.vocab == 151936);
  CHECK(spec.width == 2048);
  CHECK(spec.norm_epsilon == 1e-6f);
  CHECK(spec.context == 32768);
  CHECK(spec.tokens.end.empty());
  CHECK(layer_kinds(spec) == std::string(24, 's'));
  CHECK(windows_of(spec) == std::vector<size_t>(24));
  CHECK(spec.experts() == 60);
  CHECK(spec.top_k() == 4);
  CHECK(spec.moe()->expert.width == 1408);
  CHECK(!spec.moe()->router.normalized);
  REQUIRE(spec.moe()->shared);
  CHECK(spec.moe()->shared->ffn.width == 5632);
  CHECK(spec.moe()->shared->ffn.activation == Activation::kSwiglu);
  CHECK(spec.moe()->shared->gate == SharedGate::kSigmoid);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 16);
  CHECK(attention.kv_heads == 16);
  CHECK(attention.head_dim == 128);
  CHECK(attention.biased);
  CHECK(!attention.output_biased);
  CHECK(attention.qk_norm == QkNorm::kNone);
  CHECK(rope_of(spec).inverse_frequencies == rope_of(parse(R"("rope_theta":10000)")).inverse_frequencies);
}

TEST_CASE("qwen2_moe config: fields are taken under each of their names") {
  CHECK(parse(R"("num_local_experts":12)").experts() == 12);
  CHECK(parse(R"("norm_topk_prob":true)").moe()->router.normalized);
  CHECK(parse(R"("shared_expert_intermediate_size":96)").moe()->shared->ffn.width == 96);
  CHECK(!attention_of(parse(R"("qkv_bias":false)")).biased);
  CHECK(attention_of(parse(R"("head_dim":64)")).query_width() == 1024);
  CHECK(attention_of(parse(R"("hidden_size":64,"num_attention_heads":6,"num_key_value_heads":6)")).head_dim == 10);
}

TEST_CASE("qwen2_moe config: decoder_sparse_step and mlp_only_layers make layers dense") {
  const std::string six = R"("num_hidden_layers":6)";
  CHECK(layer_kinds(parse(six + R"(,"decoder_sparse_step":2)")) == "dsdsds");
  CHECK(layer_kinds(parse(six + R"(,"decoder_sparse_step":3,"mlp_only_layers":[5])")) == "ddsddd");
  CHECK(layer_kinds(parse(six + R"(,"mlp_only_layers":[0,3])")) == "dssdss");
  CHECK(layer_kinds(parse(six + R"(,"mlp_only_layers":[])")) == "ssssss");
  CHECK(layer_kinds(parse(six + R"(,"mlp_only_layers":null)")) == "ssssss");
  CHECK(dense_width(parse(six + R"(,"decoder_sparse_step":2)"), 0) == 5632);
  CHECK(dense_width(parse(six + R"(,"decoder_sparse_step":2,"intermediate_size":128)"), 4) == 128);
}

TEST_CASE("qwen2_moe config: the layers that layer_types names have a window where use_sliding_window is true") {
  const std::string layers = R"("num_hidden_layers":2,"layer_types":["full_attention","sliding_attention"])";
  CHECK(windows_of(parse(layers + R"(,"use_sliding_window":true,"sliding_window":32)")) == std::vector<size_t>{0, 32});
  CHECK(windows_of(parse(layers + R"(,"use_sliding_window":true)")) == std::vector<size_t>{0, 4096});
  CHECK(windows_of(parse(layers + R"(,"use_sliding_window":true,"sliding_window":null)")) == std::vector<size_t>{0, 0});
  CHECK(windows_of(parse(R"("num_hidden_layers":2,"use_sliding_window":false,"sliding_window":0)")) ==
        std::vector<size_t>{0, 0});
}

TEST_CASE("qwen2_moe config: without layer_types every other layer below max_window_layers has a window") {
  const std::string layers = R"("use_sliding_window":true,"sliding_window":9,"layer_types":null,"num_hidden_layers":)";
  CHECK(windows_of(parse(layers + R"(5,"max_window_layers":3)")) == std::vector<size_t>{9, 0, 9, 0, 0});
  CHECK(windows_of(parse(layers + R"(5,"max_window_layers":0)")) == std::vector<size_t>(5, 0));
  CHECK(windows_of(parse(layers + "31"))[26] == 9);
  CHECK(windows_of(parse(layers + "31"))[28] == 0);
}

TEST_CASE("qwen2_moe config: what is out of range or not supported is named") {
  check_refused(
      "qwen2_moe",
      {{R"("decoder_sparse_step":0)", {"\"decoder_sparse_step\"", "from 1", "found 0"}},
       {R"("mlp_only_layers":[-1])", {"\"mlp_only_layers\"", "found -1"}},
       {R"("mlp_only_layers":3)", {"\"mlp_only_layers\"", "a list", "found 3"}},
       {R"("shared_expert_intermediate_size":0)", {"\"shared_expert_intermediate_size\"", "found 0"}},
       {R"("moe_intermediate_size":262145)", {"\"moe_intermediate_size\"", "262144", "found 262145"}},
       {R"("intermediate_size":0)", {"\"intermediate_size\"", "found 0"}},
       {R"("qkv_bias":1)", {"\"qkv_bias\"", "true or false"}},
       {R"("use_sliding_window":true,"sliding_window":0)", {"\"sliding_window\"", "found 0"}},
       {R"("use_sliding_window":true,"layer_types":["full_attention"])",
        {"\"layer_types\"", "each of the 24 layers", "found 1"}},
       {R"("use_sliding_window":true,"layer_types":["chunked_attention"])",
        {"\"layer_types\"", "\"full_attention\" or \"sliding_attention\"", "found \"chunked_attention\""}},
       {R"("head_dim":63)", {"\"head_dim\"", "even", "found 63"}},
       {R"("num_experts_per_tok":65)", {"\"num_experts_per_tok\"", "from 1 to 60", "found 65"}}});
}

}  // namespace
