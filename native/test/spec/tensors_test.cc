// The list of a model's tensors, and what walks it: the dense file, the blocks of experts, the views.
#include "spec/tensors.h"

#include "support/test.h"
#include "support/tiny_model.h"
#include "weights/dense_layout.h"
#include "weights/expert_shape.h"
#include "weights/model_weights.h"

namespace {

ModelSpec spec_of(const std::string& config) { return parse_model_config(config, "config.json").spec; }

std::vector<std::string> labels(const ModelSpec& spec, bool dense) {
  std::vector<std::string> names;
  const auto keep = [&](const TensorSlot& slot) { names.push_back(slot.label(spec)); };
  dense ? for_each_dense_slot(spec, keep) : for_each_slot(spec, keep);
  return names;
}

TEST_CASE("tensors: the order of an encoder-decoder model's dense file") {
  const std::vector<std::string> expected{
      "embedding",        "encoder.position_bias", "encoder.0.attention_norm", "encoder.0.query",
      "encoder.0.key",    "encoder.0.value",       "encoder.0.output",         "encoder.0.feed_forward_norm",
      "encoder.0.up",     "encoder.0.down",        "encoder.1.attention_norm", "encoder.1.query",
      "encoder.1.key",    "encoder.1.value",       "encoder.1.output",         "encoder.1.feed_forward_norm",
      "encoder.1.router", "encoder.final_norm",    "decoder.position_bias",
  };
  const std::vector<std::string> found = labels(spec_of(tiny_config()), true);
  CHECK(std::vector(found.begin(), found.begin() + static_cast<long>(expected.size())) == expected);
  CHECK(std::set(found.begin(), found.end()).contains("decoder.0.cross_value"));
  const std::vector<std::string> untied = labels(spec_of(tiny_config(R"("tie_word_embeddings":false)")), true);
  CHECK(std::vector(untied.begin(), untied.begin() + 3) ==
        std::vector<std::string>{"encoder.embedding", "decoder.embedding", "head"});
}

TEST_CASE("tensors: a decoder-only model's layer has norms of queries and keys, a router and gated experts") {
  const ModelSpec spec = spec_of(tiny_family_config("olmoe"));
  const std::vector<std::string> expected{"decoder.embedding",
                                          "head",
                                          "decoder.0.attention_norm",
                                          "decoder.0.query",
                                          "decoder.0.key",
                                          "decoder.0.value",
                                          "decoder.0.output",
                                          "decoder.0.query_norm",
                                          "decoder.0.key_norm",
                                          "decoder.0.feed_forward_norm",
                                          "decoder.0.router",
                                          "decoder.0.expert.0.gate",
                                          "decoder.0.expert.0.up",
                                          "decoder.0.expert.0.down",
                                          "decoder.0.expert.1.gate"};
  const std::vector<std::string> found = labels(spec, false);
  CHECK(std::vector(found.begin(), found.begin() + static_cast<long>(expected.size())) == expected);
  CHECK(found.back() == "decoder.final_norm");
  std::map<std::string, std::vector<uint64_t>> shapes;
  for_each_slot(spec, [&](const TensorSlot& slot) { shapes[slot.label(spec)] = slot.shape; });
  CHECK(shapes["decoder.0.query"] == std::vector<uint64_t>{8, 8});
  CHECK(shapes["decoder.0.key"] == std::vector<uint64_t>{4, 8});
  CHECK(shapes["decoder.0.query_norm"] == std::vector<uint64_t>{8});
  CHECK(shapes["decoder.0.key_norm"] == std::vector<uint64_t>{4});
  CHECK(shapes["decoder.0.router"] == std::vector<uint64_t>{3, 8});
  CHECK(shapes["decoder.1.expert.2.gate"] == std::vector<uint64_t>{6, 8});
  CHECK(shapes["decoder.1.expert.2.down"] == std::vector<uint64_t>{8, 6});
}

TEST_CASE("tensors: no two slots of a model share a name, and every one has a source") {
  for (const std::string& config :
       {tiny_config(), tiny_config(R"("tie_word_embeddings":false)"), tiny_family_config("olmoe"),
        tiny_family_config("olmoe", R"("tie_word_embeddings":true)"),
        tiny_family_config("nllb-moe", R"("router_bias":true)")}) {
    CASE(config);
    const auto [family, spec, fp8] = parse_model_config(config, "config.json");
    std::set<std::string> names, sources;
    size_t slots = 0, experts = 0;
    for_each_slot(spec, [&](const TensorSlot& slot) {
      ++slots;
      experts += slot.form == TensorForm::kExpert;
      names.insert(slot.label(spec));
      sources.insert(family->source(spec, slot).candidates.front().name);
    });
    CHECK(names.size() == slots);
    CHECK(sources.size() == slots);
    CHECK(labels(spec, true).size() == slots - experts);
  }
}

TEST_CASE("expert layout: a gated expert has three matrices, each at 64 bytes, in whole pages") {
  const ExpertLayout gated = make_expert_layout(expert_shape_of(spec_of(tiny_family_config("olmoe"))), kF32Format);
  REQUIRE(gated.layers[0].matrices.size() == 3);
  CHECK(gated.layers[0].matrices[0].projection == Projection::kGate);
  CHECK(gated.layers[0].matrices[1].projection == Projection::kUp);
  CHECK(gated.layers[0].matrices[2].projection == Projection::kDown);
  CHECK(gated.layers[0].matrices[0].offset == 0);
  // One panel of 32 columns: 8 inputs, then 6.
  CHECK(gated.layers[0].matrices[1].offset == 8 * 32 * 4);
  CHECK(gated.layers[0].matrices[2].offset == 2 * 8 * 32 * 4);
  CHECK(gated.layers[0].matrices[2].n == 8);
  CHECK(gated.layers[0].matrices[2].k == 6);
  CHECK(gated.slot_bytes == 4096);
  CHECK(gated.experts() == 2 * 3);
  const ExpertLayout plain = make_expert_layout(expert_shape_of(spec_of(tiny_config())), kF32Format);
  CHECK(plain.layers[0].matrices.size() == 2);
  const auto* block = reinterpret_cast<const std::byte*>(&plain);
  CHECK(plain.layers[0].matrix(block, Projection::kGate).data == nullptr);
  CHECK(plain.layers[0].matrix(block, Projection::kDown).data == block + plain.layers[0].matrices[1].offset);
  CHECK(plain.layers[0].matrix(block, Projection::kDown).k == 8);
}

TEST_CASE("expert layout: a model without MoE layers has no experts") {
  const ExpertShape shape = expert_shape_of(spec_of(tiny_config(R"("encoder_sparse_step":0,"decoder_sparse_step":0)")));
  const ExpertLayout layout = make_expert_layout(shape, kBf16Format);
  CHECK(layout.experts() == 0);
  CHECK(layout.slot_bytes % 4096 == 0);
  CHECK(layout.slot_bytes > 0);
}

TEST_CASE("model weights: every view points at its tensor of the dense file") {
  for (const std::string& config :
       {tiny_config(), tiny_config(R"("tie_word_embeddings":false)"), tiny_family_config("olmoe"),
        tiny_family_config("nllb-moe", R"("router_bias":true)")}) {
    CASE(config);
    const ModelSpec spec = spec_of(config);
    const DenseLayout whole = make_dense_layout(spec, kBf16Format);
    for (const DenseLayout& layout : {whole, without_routers(whole)}) {
      const std::vector<std::byte> dense(layout.bytes);
      const ModelWeights weights = view_weights(spec, layout, dense.data());
      std::map<std::string, const std::byte*> at;
      for (const DenseTensor& tensor : layout.tensors) at[tensor.name] = dense.data() + tensor.offset;
      const auto rows = [](const float* data) { return reinterpret_cast<const std::byte*>(data); };
      const bool tied = spec.head.tied;
      CHECK(weights.head.data == at[tied ? "embedding" : "head"]);
      CHECK(weights.head.n == spec.vocab);
      size_t moe_layer = 0;
      for (size_t s = 0; s < spec.stacks.size(); ++s) {
        const StackSpec& stack = spec.stacks[s];
        const StackWeights& views = weights.stacks[s];
        CHECK(views.embedding.data == at[tied ? "embedding" : stack.name + ".embedding"]);
        CHECK(views.embedding.k == spec.width);
        CHECK(rows(views.final_norm.weight) == at[stack.name + ".final_norm"]);
        CHECK(rows(views.final_norm.bias) == at[stack.name + ".final_norm_bias"]);
        CHECK(rows(views.position_bias) == at[stack.name + ".position_bias"]);
        for (size_t i = 0; i < stack.layers.size(); ++i) {
          const std::string prefix = stack.name + "." + std::to_string(i) + ".";
          CASE(prefix);
          const LayerWeights& layer = views.layers[i];
          CHECK(rows(layer.self.norm.weight) == at[prefix + "attention_norm"]);
          CHECK(rows(layer.self.norm.bias) == at[prefix + "attention_norm_bias"]);
          CHECK(rows(layer.self.query.bias) == at[prefix + "query_bias"]);
          CHECK(rows(layer.self.output.bias) == at[prefix + "output_bias"]);
          CHECK(layer.self.query.data == at[prefix + "query"]);
          CHECK(layer.self.key.data == at[prefix + "key"]);
          CHECK(layer.self.key.n == stack.layers[i].self.kv_width());
          CHECK(layer.self.value.data == at[prefix + "value"]);
          CHECK(layer.self.output.data == at[prefix + "output"]);
          CHECK(rows(layer.self.query_norm) == at[prefix + "query_norm"]);
          CHECK(rows(layer.self.key_norm) == at[prefix + "key_norm"]);
          CHECK(rows(layer.cross.norm.weight) == at[prefix + "cross_norm"]);
          CHECK(rows(layer.cross.norm.bias) == at[prefix + "cross_norm_bias"]);
          CHECK(rows(layer.cross.query.bias) == at[prefix + "cross_query_bias"]);
          CHECK(rows(layer.cross.key.bias) == at[prefix + "cross_key_bias"]);
          CHECK(rows(layer.cross.value.bias) == at[prefix + "cross_value_bias"]);
          CHECK(rows(layer.cross.output.bias) == at[prefix + "cross_output_bias"]);
          CHECK(layer.cross.output.data == at[prefix + "cross_output"]);
          CHECK(rows(layer.feed_forward.norm.weight) == at[prefix + "feed_forward_norm"]);
          CHECK(rows(layer.feed_forward.norm.bias) == at[prefix + "feed_forward_norm_bias"]);
          CHECK(rows(layer.feed_forward.ffn.up.bias) == at[prefix + "up_bias"]);
          CHECK(rows(layer.feed_forward.ffn.down.bias) == at[prefix + "down_bias"]);
          CHECK(rows(layer.feed_forward.router.bias) == at[prefix + "router_bias"]);
          CHECK(layer.feed_forward.ffn.up.data == at[prefix + "up"]);
          CHECK(layer.feed_forward.ffn.down.data == at[prefix + "down"]);
          CHECK(layer.feed_forward.ffn.gate.data == nullptr);
          CHECK(layer.feed_forward.router.data == at[prefix + "router"]);
          if (stack.layers[i].moe() != nullptr) CHECK(layer.feed_forward.moe_layer == moe_layer++);
        }
      }
    }
  }
}

}  // namespace
