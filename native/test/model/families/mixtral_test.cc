#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/family_config.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& fields = "") { return parse_family("mixtral", fields); }

TEST_CASE("mixtral config: defaults are those of transformers") {
  const ModelSpec spec = parse();
  CHECK(spec.family == "mixtral");
  CHECK(spec.vocab == 32000);
  CHECK(spec.width == 4096);
  CHECK(spec.norm_epsilon == 1e-5f);
  CHECK(spec.context == 131072);
  CHECK(!spec.head.tied);
  CHECK(spec.tokens.end == std::vector<int32_t>{2});
  CHECK(!spec.tokens.pad);
  CHECK(layer_kinds(spec) == std::string(32, 's'));
  CHECK(spec.experts() == 8);
  CHECK(spec.top_k() == 2);
  CHECK(spec.moe()->expert.width == 14336);
  CHECK(spec.moe()->expert.activation == Activation::kSwiglu);
  CHECK(!spec.moe()->expert.biased);
  CHECK(spec.moe()->router.scores == RouterScores::kSoftmax);
  CHECK(spec.moe()->router.normalized);
  CHECK(!spec.moe()->shared);
  const AttentionSpec& attention = attention_of(spec);
  CHECK(attention.heads == 32);
  CHECK(attention.kv_heads == 8);
  CHECK(attention.head_dim == 128);
  CHECK(attention.scale == 0.08838834764831845f);
  CHECK(attention.qk_norm == QkNorm::kNone);
  CHECK(!attention.biased);
  CHECK(!attention.window);
  CHECK(rope_of(spec).width() == 128);
  CHECK(rope_of(spec).inverse_frequencies == rope_of(parse(R"("rope_theta":1000000.0)")).inverse_frequencies);
}

TEST_CASE("mixtral config: fields are taken under each of their names") {
  CHECK(parse(R"("num_experts":4)").experts() == 4);
  CHECK(parse(R"("num_local_experts":4)").experts() == 4);
  CHECK(attention_of(parse(R"("head_dim":64)")).query_width() == 2048);
  CHECK(attention_of(parse(R"("head_dim":null)")).head_dim == 128);
  CHECK(attention_of(parse(R"("num_key_value_heads":null)")).kv_heads == 32);
  CHECK(windows_of(parse(R"("sliding_window":4096,"num_hidden_layers":2)")) == std::vector<size_t>{4096, 4096});
  CHECK(windows_of(parse(R"("sliding_window":null,"num_hidden_layers":2)")) == std::vector<size_t>{0, 0});
  CHECK(parse(R"("intermediate_size":96)").moe()->expert.width == 96);
  CHECK(rope_of(parse(R"("rope_parameters":{"rope_theta":10000.0,"rope_type":"default"})")).inverse_frequencies ==
        rope_of(parse(R"("rope_theta":10000)")).inverse_frequencies);
}

TEST_CASE("mixtral config: what is out of range or not supported is named") {
  check_refused("mixtral",
                {{R"("sliding_window":0)", {"\"sliding_window\"", "from 1", "found 0"}},
                 {R"("sliding_window":"4096")", {"\"sliding_window\"", "found \"4096\""}},
                 {R"("num_local_experts":65536)", {"\"num_local_experts\"", "65535", "found 65536"}},
                 {R"("num_local_experts":1)", {"\"num_experts_per_tok\"", "from 1 to 1", "found none, which is 2"}},
                 {R"("num_experts_per_tok":9)", {"\"num_experts_per_tok\"", "from 1 to 8", "found 9"}},
                 {R"("num_key_value_heads":3)", {"\"num_key_value_heads\"", "divisor of the 32 heads", "found 3"}},
                 {R"("head_dim":63)", {"\"head_dim\"", "even", "found 63"}},
                 {R"("head_dim":0)", {"\"head_dim\"", "found 0"}},
                 {R"("hidden_act":"relu")", {"\"hidden_act\"", "expected \"silu\"", "found \"relu\""}},
                 {R"("partial_rotary_factor":0.5)", {"\"partial_rotary_factor\"", "expected 1", "found 0.5"}}});
}

}  // namespace
