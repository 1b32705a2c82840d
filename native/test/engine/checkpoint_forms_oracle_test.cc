// The fixtures of decoder-only families in other forms: the same bits of logits from each.
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/checkpoint_forms.h"
#include "support/decoder_prompts.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/same_bits.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using namespace testing;

std::vector<float> logits_of(const std::string& config, const Tensors& tensors, size_t shards,
                             const std::vector<int32_t>& prompt, WeightFormat experts = kF32Format) {
  const TempDir model, pack;
  write_file(model.path() + "/config.json", config);
  write_weights(model.path(), tensors, shards);
  write_pack(model.path(), pack.path(), experts);
  Engine engine(options_for(pack.path(), {64, 64, 2}, 0.5));
  return logits_in_chunks(engine, prompt, prompt.size());
}

struct Fixture {
  std::string config;
  Tensors tensors;
  std::vector<int32_t> prompt;
};

/// The fixture's model, cut to numbers of f16, and one of its prompts.
Fixture read_fixture(const std::string& name) {
  const std::string directory = fixture(name);
  Fixture read{read_text_file(directory + "/config.json", 1 << 20), read_tensors(directory), {}};
  cut_to_f16(read.tensors);
  const auto ids = Cases(directory).read<int64_t>("c2.input_ids");
  read.prompt.assign(ids.begin(), ids.end());
  return read;
}

TEST_CASE("checkpoint forms: tied, fused and in shards of f16, the logits of an embedding that is there twice") {
  for (const char* name : kDecoderFixtures) {
    CAPTURE(name);
    const auto [config, tensors, prompt] = read_fixture(name);
    Tensors twice = tensors, tied;
    BuiltTensor* head = nullptr;
    const BuiltTensor* embedding = nullptr;
    for (BuiltTensor& tensor : twice) {
      if (tensor.name == "lm_head.weight") {
        head = &tensor;
      } else {
        tied.push_back(tensor);
      }
      if (tensor.name == "model.embed_tokens.weight") embedding = &tensor;
    }
    REQUIRE(head != nullptr);
    REQUIRE(embedding != nullptr);
    head->data = embedding->data;
    fuse_experts(tied);
    narrow(tied, "F16");
    std::string tied_config = config;
    const std::string untied = "\"tie_word_embeddings\": false";
    REQUIRE(config.find(untied) != std::string::npos);
    tied_config.replace(config.find(untied), untied.size(), "\"tie_word_embeddings\": true");
    const std::vector<float> expected = logits_of(config, twice, 1, prompt);
    CHECK(same_bits(logits_of(tied_config, tied, 3, prompt), expected));
    CHECK_FALSE(same_bits(logits_of(config, tensors, 1, prompt), expected));
  }
}

TEST_CASE("checkpoint forms: in FP8, fused or not, the logits of the dequantized numbers") {
  for (const char* name : {"olmoe-tiny", "qwen3-moe-tiny", "deepseek-v3-tiny"}) {
    CAPTURE(name);
    const auto [config, tensors, prompt] = read_fixture(name);
    for (const Fp8Block block : {Fp8Block{}, Fp8Block{24, 40}}) {
      CAPTURE(block.rows);
      for (const bool fused : {false, true}) {
        CAPTURE(fused);
        Tensors own = tensors;
        if (fused) fuse_experts(own);
        const Fp8Forms forms = fp8_forms(own, block, fused ? "BF16" : "F32");
        for (const WeightFormat experts : {kF32Format, WeightFormat{WeightType::kInt8, 0}}) {
          CHECK(same_bits(logits_of(with_fields(config, fp8_field(block)), forms.fp8, 2, prompt, experts),
                          logits_of(config, forms.plain, 1, prompt, experts)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace sida
