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

TEST_CASE("tensors: no two slots of a model share a name, and every one has a source") {
  auto models = grid(kFamilies, std::vector<std::string>{""});
  models.emplace_back("switch_transformers", R"("tie_word_embeddings":false)");
  models.emplace_back("olmoe", R"("tie_word_embeddings":true)");
  models.emplace_back("nllb-moe", R"("router_bias":true)");
  for (const auto& [family, fields] : models) {
    CASE(family, fields);
    const ModelConfig config = parse_model_config(tiny_family_config(family, fields), "config.json");
    std::set<std::string> names;
    size_t slots = 0, experts = 0;
    for_each_slot(config.spec, [&](const TensorSlot& slot) {
      ++slots;
      experts += slot.form == TensorForm::kExpert;
      names.insert(slot.label(config.spec));
      REQUIRE(!config.family->source(config.spec, slot).candidates.empty());
    });
    CHECK(names.size() == slots);
    CHECK(labels(config.spec, true).size() == slots - experts);
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

}  // namespace
