// Every family's checkpoints in every form that writers give them: experts fused or not, one file or shards, f32, bf16
// or f16, with a head of their own or a tied one.
#include "support/checkpoint_forms.h"

#include "support/oracle_cases.h"

namespace {

/// Checks that all forms of the same numbers pack to the same bits.
void check_forms(const std::string& config, const std::vector<Tensors>& forms) {
  const std::string expected = packed_bytes(config, forms[0]);
  for (const auto& [form, dtype, shards] :
       grid(first_numbers(forms.size()), std::vector<std::string>{"F32", "BF16", "F16"}, Sizes{1, 3})) {
    CASE(form, dtype, shards);
    Tensors tensors = forms[form];
    for (BuiltTensor& tensor : tensors) {
      if (dtype != "F32") narrow(tensor, dtype);
    }
    CHECK(packed_bytes(config, tensors, kF32Format, shards) == expected);
  }
}

void check_family(const std::string& family, bool transposed) {
  CASE(family, transposed);
  // Models with an encoder and gpt-oss have one form of their experts.
  const bool encoder = family == "switch_transformers" || family == "nllb-moe" || family == "nomic_bert";
  const bool fusible = !encoder && family != "gpt_oss";
  const std::string usual = tiny_family_config(family);
  std::vector<Tensors> forms{tiny_tensors(usual, fusible || transposed)};
  fill_randomly(forms[0], 7);
  if (fusible) forms.push_back(unfused(tiny_tensors(usual), forms[0]));
  const auto config = [&](const char* tied) {
    return tiny_family_config(family, std::string(R"("tie_word_embeddings":)") + tied);
  };
  for (Tensors& tensors : forms) tensors = without(tensors, "lm_head.weight");
  check_forms(config("true"), forms);
  if (family == "nllb-moe" || family == "nomic_bert") return;  // always tied, no head
  const std::string part = family == "qwen3_5_moe_text" ? "model.language_model." : "model.";
  const BuiltTensor& embedding =
      tensor_named(forms[0], family == "switch_transformers" ? "shared.weight" : part + "embed_tokens.weight");
  Tensors head{{"lm_head.weight", "F32", embedding.shape, embedding.data}};
  fill_randomly(head, 8);
  for (Tensors& tensors : forms) tensors.push_back(head[0]);
  check_forms(config("false"), forms);
}

TEST_CASE("checkpoint forms: every family packs to the same bits from every form of the same numbers") {
  for (const char* family : kFamilies) check_family(family, false);
  // Experts that are no codes of MXFP4.
  check_family("gpt_oss", true);
}

TEST_CASE("checkpoint forms: a tied head gives the logits of an embedding that is there twice") {
  for (const char* name : kDecoderFixtures) {
    CASE(name);
    const std::string directory = fixture(name), config = read_text_file(directory + "/config.json");
    const auto logits_of = [&](const std::string& own_config, const Tensors& tensors) {
      const CheckpointDirectory model(own_config);
      model.write_tensors(tensors);
      const TempDir pack;
      write_pack(model.path(), pack.path());
      Engine engine(options_for(pack.path(), {64, 64, 2}, 0.5));
      return feed(engine, 1, Cases(directory).tokens("c2.input_ids")).logits;
    };
    const Tensors tensors = read_tensors(directory);
    Tensors twice = tensors;
    const std::string part = std::string(name) == "qwen3-5-moe-tiny" ? "model.language_model." : "model.";
    tensor_named(twice, "lm_head.weight").data = tensor_named(twice, part + "embed_tokens.weight").data;
    const std::string untied = "\"tie_word_embeddings\": false";
    std::string tied_config = config;
    REQUIRE(config.find(untied) != std::string::npos);
    tied_config.replace(config.find(untied), untied.size(), "\"tie_word_embeddings\": true");
    const std::vector<float> expected = logits_of(config, twice);
    CHECK(same_bits(logits_of(tied_config, without(tensors, "lm_head.weight")), expected));
    CHECK_FALSE(same_bits(logits_of(config, tensors), expected));
  }
}

}  // namespace
