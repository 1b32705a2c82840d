// Every family's checkpoints in every form that writers give them: experts fused or not, one file or shards, f32, bf16
// or f16, with a head of their own or a tied one.
#include "support/checkpoint_forms.h"

#include <algorithm>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/checkpoint_directory.h"
#include "support/test_pack.h"

namespace {

using namespace sida;
using namespace sida::testing;

struct Model {
  std::string name, config;
  Tensors tensors;
};

/// A tiny model of each family; gpt-oss's also with experts that are no codes of MXFP4, which are always fused.
std::vector<Model> models() {
  std::vector<Model> all{{"switch_transformers", tiny_config(), tiny_tensors()},
                         {"olmoe", tiny_olmoe_config(), tiny_tensors(tiny_olmoe_config())},
                         {"nllb-moe", tiny_nllb_config(), tiny_tensors(tiny_nllb_config())}};
  for (const std::string family :
       {"mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3", "glm4_moe"}) {
    const std::string config = tiny_family_config(family);
    all.push_back({family, config, tiny_tensors(config)});
    if (family == "gpt_oss") all.push_back({family, config, tiny_tensors(config, true)});
  }
  for (Model& model : all) fill_randomly(model.tensors, 7);
  return all;
}

std::string packed(const std::string& config, const Tensors& tensors, size_t shards) {
  const CheckpointDirectory model(config);
  write_weights(model.path(), tensors, shards);
  model.open().check_tensors();
  const TempDir pack;
  write_pack(model.path(), pack.path());
  return pack_bytes(pack.path());
}

/// Checks all forms of the same numbers against the plain one.
void check_forms(const std::string& config, const Tensors& plain) {
  const std::string expected = packed(config, plain, 1);
  for (const bool fused : {false, true}) {
    CAPTURE(fused);
    Tensors tensors = plain;
    // Encoder-decoder models and gpt-oss have one form of their experts.
    if (fused && !fuse_experts(tensors)) continue;
    for (const std::string dtype : {"F32", "BF16", "F16"}) {
      CAPTURE(dtype);
      Tensors stored = tensors;
      if (dtype != "F32") narrow(stored, dtype);
      for (const size_t shards : {1, 3}) {
        CAPTURE(shards);
        CHECK(packed(config, stored, shards) == expected);
      }
    }
  }
}

Tensors without_head(Tensors tensors) {
  std::erase_if(tensors, [](const BuiltTensor& tensor) { return tensor.name == "lm_head.weight"; });
  return tensors;
}

Tensors with_head(Tensors tensors) {
  tensors = without_head(std::move(tensors));
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](const BuiltTensor& tensor) {
    return tensor.name == "shared.weight" || tensor.name == "model.embed_tokens.weight";
  });
  REQUIRE(embedding != tensors.end());
  Tensors head{{"lm_head.weight", "F32", embedding->shape, embedding->data}};
  fill_randomly(head, 8);
  tensors.push_back(head[0]);
  return tensors;
}

TEST_CASE("checkpoint forms: every family packs to the same bits from every form of the same numbers") {
  for (const Model& model : models()) {
    CAPTURE(model.name);
    check_forms(with_fields(model.config, R"("tie_word_embeddings":true)"), without_head(model.tensors));
    // The head of nllb-moe is always tied.
    if (model.name == "nllb-moe") continue;
    check_forms(with_fields(model.config, R"("tie_word_embeddings":false)"), with_head(model.tensors));
  }
}

TEST_CASE("checkpoint forms: the experts of eight families may be fused") {
  for (const Model& model : models()) {
    CAPTURE(model.name);
    Tensors tensors = model.tensors;
    const bool own = model.name == "switch_transformers" || model.name == "nllb-moe" || model.name == "gpt_oss";
    CHECK(fuse_experts(tensors) != own);
  }
}

}  // namespace
