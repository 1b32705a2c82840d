#include "model/model_config.h"

#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/error_checks.h"

namespace {

using namespace sida;
using namespace sida::testing;

ModelSpec parse(const std::string& text) { return parse_model_config(text, "config.json").spec; }

ModelSpec parse_fields(const std::string& fields) {
  return parse(R"({"model_type":"switch_transformers")" + (fields.empty() ? "" : "," + fields) + "}");
}

TEST_CASE("switch config: defaults and the sparse rule are those of transformers") {
  const ModelSpec base = parse_fields("");
  CHECK(base.family == "switch_transformers");
  CHECK(base.vocab == 32128);
  CHECK(base.experts() == 8);
  CHECK(base.moe_layers() == std::vector<std::string>{"encoder.1", "encoder.5", "encoder.9", "decoder.1",
                                                      "decoder.5", "decoder.9"});
  const auto layers = [&](const std::string& fields) {
    std::string list;
    for (const std::string& layer :
         parse_fields(R"("num_decoder_layers":1,"num_sparse_decoder_layers":1,"decoder_sparse_step":0,)" + fields)
             .moe_layers()) {
      list += layer.substr(8) + " ";
    }
    return list;
  };
  CHECK(layers(R"("num_layers":4,"num_sparse_encoder_layers":4)") == "0 1 2 3 ");
  CHECK(layers(R"("num_layers":4,"num_sparse_encoder_layers":2)") == "1 3 ");
  CHECK(layers(R"("num_layers":5,"num_sparse_encoder_layers":2)") == "1 3 ");
  CHECK(layers(R"("num_layers":5,"num_sparse_encoder_layers":3)") == "0 1 2 3 4 ");
  CHECK(layers(R"("num_layers":4,"num_sparse_encoder_layers":0)") == "1 ");
  CHECK(layers(R"("num_layers":4,"num_sparse_encoder_layers":2,"encoder_sparse_step":0)") == "");
  CHECK(parse_fields(R"("num_layers":6,"num_decoder_layers":null)").stacks[1].layers.size() == 6);
  CHECK(parse_fields(R"("eos_token_id":null)").tokens.end.empty());
  CHECK(parse_fields(R"("eos_token_id":[3,1])").tokens.end == std::vector<int32_t>{3, 1});
  CHECK(parse_fields(R"("pad_token_id":3)").tokens.start == 3);
}

TEST_CASE("switch config: the spec is that of T5 with one expert a token") {
  const ModelSpec spec = parse_fields(R"("expert_capacity":5,"d_model":16)");
  CHECK(spec.width == 16);
  CHECK(spec.head.tied);
  CHECK(spec.head.scale == 0.25f);
  CHECK(spec.context == 0);
  CHECK(spec.stacks.size() == 2);
  for (const StackSpec& stack : spec.stacks) {
    const bool decoder = stack.name == "decoder";
    CHECK(stack.causal == decoder);
    CHECK(std::get<RelativeBias>(stack.positions).buckets == 32);
    for (const LayerSpec& layer : stack.layers) {
      CHECK(layer.cross.has_value() == decoder);
      CHECK(layer.self.scale == 1);
      CHECK(layer.self.kv_heads == 12);
      CHECK(layer.self.qk_norm == QkNorm::kNone);
    }
  }
  CHECK(spec.moe()->router.capacity == 5);
  CHECK(spec.top_k() == 1);
  CHECK(!spec.moe()->router.normalized);
  CHECK(parse_fields(R"("tie_word_embeddings":false)").head.scale == 1);
}

TEST_CASE("switch config: what is out of range or not supported is named") {
  struct Row {
    std::string field;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {R"("num_experts":0)", {"\"num_experts\"", "from 1 to 65535", "found 0"}},
      {R"("num_experts":-1)", {"\"num_experts\"", "found -1"}},
      {R"("num_experts":1000000000)", {"\"num_experts\"", "found 1000000000"}},
      {R"("num_experts":1e9)", {"\"num_experts\"", "found 1e9"}},
      {R"("num_experts":8.5)", {"found 8.5"}},
      {R"("num_experts":"8")", {"found \"8\""}},
      {R"("num_experts":18446744073709551617)", {"found 18446744073709551617"}},
      {R"("d_model":9007199254740993)", {"\"d_model\"", "found 9007199254740993"}},
      {R"("d_kv":65536,"num_heads":2)", {"\"num_heads\"", "from 1 to 1", "found 2"}},
      {R"("num_layers":0)", {"\"num_layers\"", "found 0"}},
      {R"("num_layers":257)", {"\"num_layers\"", "256", "found 257"}},
      {R"("num_layers":4,"num_sparse_encoder_layers":5)", {"from 0 to 4", "found 5"}},
      {R"("expert_capacity":0)", {"\"expert_capacity\"", "found 0"}},
      {R"("relative_attention_num_buckets":3)", {"from 4", "found 3"}},
      {R"("relative_attention_max_distance":16)", {"from 17", "found 16"}},
      {R"("layer_norm_epsilon":-1)", {"\"layer_norm_epsilon\"", "found -1"}},
      {R"("layer_norm_epsilon":1e999)", {"found 1e999"}},
      {R"("eos_token_id":32128)", {"\"eos_token_id\"", "32127", "found 32128"}},
      {R"("eos_token_id":[1,32128])", {"\"eos_token_id\"", "32127", "found 32128"}},
      {R"("eos_token_id":[1,"2"])", {"\"eos_token_id\"", "a whole number", "found \"2\""}},
      {R"("pad_token_id":null)", {"decoder_start_token_id"}},
      {R"("tie_word_embeddings":1)", {"true or false", "found 1"}},
      {R"("dense_act_fn":"gated-gelu")", {"\"dense_act_fn\"", "expected \"relu\"", "gated-gelu"}},
      {R"("router_bias":true)", {"\"router_bias\"", "not supported"}},
      {R"("router_dtype":"bfloat16")", {"\"router_dtype\"", "bfloat16"}},
      {R"("router_ignore_padding_tokens":true)", {"\"router_ignore_padding_tokens\""}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.field);
    const std::string message = error_of([&] { parse_fields(row.field); });
    CHECK(message.find("config.json: ") == 0);
    check_has(message, row.parts);
  }
}

TEST_CASE("config: model_type chooses the family, and an unknown one is refused with the known ones") {
  const std::string known = R"(expected "switch_transformers" or "olmoe" or "mixtral" or )";
  check_has(error_of([] { parse(R"({"model_type":"bert"})"); }), {"model_type", known, "found \"bert\""});
  check_has(error_of([] { parse(R"({"model_type":7})"); }), {"model_type", known, "found 7"});
  check_has(error_of([] { parse("{}"); }), {"model_type", known, "found none"});
  check_has(error_of([] { parse("[]"); }), {"an object", "an array of 0"});
  error_of([] { parse("{"); });
}

}  // namespace
