#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "model/model_config.h"
#include "support/error_checks.h"
#include "support/tiny_model.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse_fields(const std::string& fields) {
  const std::string text = R"({"model_type":"olmoe")" + (fields.empty() ? "" : "," + fields) + "}";
  return parse_model_config(text, "config.json").spec;
}

const Rope& rope_of(const ModelSpec& spec) { return std::get<Rope>(spec.stacks[0].positions); }

TEST_CASE("olmoe config: defaults are those of transformers") {
  const ModelSpec spec = parse_fields("");
  CHECK(spec.family == "olmoe");
  CHECK(spec.vocab == 50304);
  CHECK(spec.width == 2048);
  CHECK(spec.norm_epsilon == 1e-5f);
  CHECK(spec.context == 4096);
  CHECK(!spec.head.tied);
  CHECK(spec.head.scale == 1);
  CHECK(spec.experts() == 64);
  CHECK(spec.top_k() == 8);
  CHECK(spec.moe()->expert.width == 2048);
  CHECK(spec.moe()->expert.activation == Activation::kSwiglu);
  CHECK(spec.moe()->router.capacity == RouterSpec::kNoCapacity);
  CHECK(!spec.moe()->router.normalized);
  CHECK(spec.tokens.end == std::vector<int32_t>{50279});
  CHECK(spec.tokens.pad == 1);
  CHECK(!spec.tokens.start);
  REQUIRE(spec.stacks.size() == 1);
  const StackSpec& stack = spec.stacks[0];
  CHECK(stack.name == "decoder");
  CHECK(stack.causal);
  CHECK(stack.layers.size() == 16);
  CHECK(stack.moe_layers() == 16);
  const AttentionSpec& attention = stack.layers[0].self;
  CHECK(attention.heads == 16);
  CHECK(attention.kv_heads == 16);
  CHECK(attention.head_dim == 128);
  CHECK(attention.scale == 0.08838834764831845f);
  CHECK(attention.qk_norm == QkNorm::kRow);
  CHECK(!attention.clip);
  CHECK(!stack.layers[0].cross);
}

TEST_CASE("olmoe config: fields are taken under each of their names") {
  CHECK(parse_fields(R"("num_local_experts":12)").experts() == 12);
  CHECK(parse_fields(R"("num_experts":12,"num_experts_per_tok":12)").top_k() == 12);
  CHECK(parse_fields(R"("num_attention_heads":8,"num_key_value_heads":2)").stacks[0].layers[0].self.kv_heads == 2);
  CHECK(parse_fields(R"("num_key_value_heads":null)").stacks[0].layers[0].self.kv_heads == 16);
  CHECK(parse_fields(R"("num_attention_heads":32)").stacks[0].layers[0].self.kv_heads == 32);
  CHECK(parse_fields(R"("attention_bias":true)").stacks[0].layers[0].self.biased);
  CHECK(parse_fields(R"("attention_bias":true)").stacks[0].layers[0].self.output_biased);
  CHECK(parse_fields(R"("head_dim":128)").stacks[0].layers[0].self.head_dim == 128);
  CHECK(parse_fields(R"("clip_qkv":8)").stacks[0].layers[0].self.clip == 8.0f);
  CHECK(parse_fields(R"("norm_topk_prob":true)").moe()->router.normalized);
  CHECK(parse_fields(R"("tie_word_embeddings":true)").head.tied);
  CHECK(parse_fields(R"("eos_token_id":[5,7])").tokens.end == std::vector<int32_t>{5, 7});
  CHECK(parse_fields(R"("eos_token_id":null,"pad_token_id":null)").tokens.end.empty());
}

TEST_CASE("olmoe config: rotary frequencies follow from theta, under each of its fields") {
  const std::string heads = R"("hidden_size":64,"num_attention_heads":8)";
  // 1.0 / (10000.0 ** (torch.arange(0, 8, 2, dtype=torch.int64).float() / 8))
  CHECK(rope_of(parse_fields(heads)).inverse_frequencies == std::vector<float>{1.0f, 0.1f, 0.01f, 0.001f});
  CHECK(rope_of(parse_fields(heads)).magnitude == 1);
  const std::vector<float> other = rope_of(parse_fields(heads + R"(,"rope_theta":500000)")).inverse_frequencies;
  CHECK(std::abs(other[1] * std::pow(500000.0, 0.25) - 1) < 1e-7);
  for (const char* fields : {R"("rope_parameters":{"rope_theta":500000.0,"rope_type":"default"})",
                             R"("rope_theta":10000.0,"rope_parameters":{"rope_theta":500000})",
                             R"("rope_theta":500000,"rope_scaling":null)",
                             R"("rope_theta":500000,"rope_scaling":{"type":"default"})",
                             R"("rope_theta":500000,"rope_parameters":{"rope_type":"default"})"}) {
    CAPTURE(fields);
    CHECK(rope_of(parse_fields(heads + "," + fields)).inverse_frequencies == other);
  }
}

TEST_CASE("olmoe config: what is out of range or not supported is named") {
  struct Row {
    std::string field;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {R"("vocab_size":0)", {"\"vocab_size\"", "from 1 to 16777216", "found 0"}},
      {R"("vocab_size":"50304")", {"\"vocab_size\"", "found \"50304\""}},
      {R"("hidden_size":65537)", {"\"hidden_size\"", "65536", "found 65537"}},
      {R"("intermediate_size":0)", {"\"intermediate_size\"", "found 0"}},
      {R"("num_hidden_layers":257)", {"\"num_hidden_layers\"", "256", "found 257"}},
      {R"("num_hidden_layers":1.5)", {"\"num_hidden_layers\"", "found 1.5"}},
      {R"("num_experts":65536)", {"\"num_experts\"", "65535", "found 65536"}},
      {R"("num_experts":65535,"num_hidden_layers":17)", {"experts of all layers", "1048576", "found 1114095"}},
      {R"("rope_theta":1,"rope_scaling":{"type":"yarn","factor":4})", {"\"rope_theta\"", "more than 1", "found 1"}},
      {R"("num_local_experts":0)", {"\"num_local_experts\"", "found 0"}},
      {R"("num_experts_per_tok":0)", {"\"num_experts_per_tok\"", "from 1 to 64", "found 0"}},
      {R"("num_experts":4)", {"\"num_experts_per_tok\"", "from 1 to 4", "found none, which is 8"}},
      {R"("num_experts":4,"num_experts_per_tok":5)", {"\"num_experts_per_tok\"", "from 1 to 4", "found 5"}},
      {R"("num_attention_heads":3)", {"\"num_attention_heads\"", "2048 columns", "found 3"}},
      {R"("num_attention_heads":2048)", {"\"num_attention_heads\"", "even", "found 2048"}},
      {R"("num_key_value_heads":5)", {"\"num_key_value_heads\"", "a divisor of the 16 heads", "found 5"}},
      {R"("num_key_value_heads":32)", {"\"num_key_value_heads\"", "from 1 to 16", "found 32"}},
      {R"("head_dim":64)", {"\"head_dim\"", "from 128 to 128", "found 64"}},
      {R"("rms_norm_eps":2)", {"\"rms_norm_eps\"", "found 2"}},
      {R"("max_position_embeddings":0)", {"\"max_position_embeddings\"", "found 0"}},
      {R"("hidden_act":"gelu")", {"\"hidden_act\"", "expected \"silu\"", "found \"gelu\"", "activations"}},
      {R"("hidden_act":1)", {"\"hidden_act\"", "found 1"}},
      {R"("clip_qkv":-1)", {"\"clip_qkv\"", "found -1"}},
      {R"("clip_qkv":"8")", {"\"clip_qkv\"", "found \"8\""}},
      {R"("norm_topk_prob":1)", {"\"norm_topk_prob\"", "true or false"}},
      {R"("tie_word_embeddings":"no")", {"\"tie_word_embeddings\"", "true or false"}},
      {R"("rope_theta":0)", {"\"rope_theta\"", "found 0"}},
      {R"("rope_theta":"10000")", {"\"rope_theta\"", "found \"10000\""}},
      {R"("rope_scaling":{"type":"dynamic","factor":2.0})",
       {"\"rope_scaling.type\"", "expected \"default\", \"linear\"", "found \"dynamic\"", "not supported"}},
      {R"("rope_parameters":{"rope_type":"longrope","rope_theta":10000.0,"factor":4})",
       {"\"rope_parameters.rope_type\"", "found \"longrope\""}},
      {R"("rope_parameters":{"rope_type":"yarn","factor":0.5})", {"\"rope_parameters.factor\"", "found 0.5"}},
      {R"("rope_parameters":{"rope_theta":-5})", {"\"rope_parameters.rope_theta\"", "found -5"}},
      {R"("rope_parameters":{"partial_rotary_factor":0.5})",
       {"\"rope_parameters.partial_rotary_factor\"", "found 0.5"}},
      {R"("rope_parameters":{"full_attention":{"rope_type":"default"}})",
       {"\"rope_parameters.full_attention\"", "an object"}},
      {R"("rope_parameters":"default")", {"\"rope_parameters\"", "an object", "found \"default\""}},
      {R"("rope_scaling":[])", {"\"rope_scaling\"", "an object", "an array of 0"}},
      {R"("eos_token_id":50304)", {"\"eos_token_id\"", "50303", "found 50304"}},
      {R"("eos_token_id":[1,-2])", {"\"eos_token_id\"", "found -2"}},
      {R"("eos_token_id":"</s>")", {"\"eos_token_id\"", "found \"</s>\""}},
      {R"("pad_token_id":-1)", {"\"pad_token_id\"", "found -1"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.field);
    const std::string message = error_of([&] { parse_fields(row.field); });
    CHECK(message.find("config.json: ") == 0);
    check_has(message, row.parts);
  }
}

TEST_CASE("generation config: the tokens it lists take the place of the config's") {
  const auto end_after = [](const std::string& text) {
    ModelSpec spec = parse_fields(R"("eos_token_id":2)");
    read_generation_config(text, "generation_config.json", &spec);
    return spec.tokens.end;
  };
  CHECK(end_after(R"({"eos_token_id":7})") == std::vector<int32_t>{7});
  CHECK(end_after(R"({"eos_token_id":[4,0],"pad_token_id":1})") == std::vector<int32_t>{4, 0});
  CHECK(end_after("{}") == std::vector<int32_t>{2});
  CHECK(end_after(R"({"eos_token_id":null})") == std::vector<int32_t>{2});
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"eos_token_id":"2"})", "found \"2\""},
           {R"({"eos_token_id":[2,2.5]})", "found 2.5"},
           {R"({"eos_token_id":{}})", "an object"},
           {R"({"eos_token_id":60000})", "found 60000"},
           {"[]", "expected an object"},
           {"{", "generation_config.json"},
       }) {
    CAPTURE(text);
    check_has(error_of([&] { end_after(text); }), {"generation_config.json: ", part});
  }
}

}  // namespace
