#include "checkpoint/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "doctest/doctest.h"
#include "support/checkpoint_directory.h"
#include "support/error_checks.h"

namespace {

using namespace sida;
using namespace sida::testing;

namespace fs = std::filesystem;

std::string embedding_name(const Checkpoint& checkpoint, size_t stack) {
  const ModelSpec& spec = checkpoint.spec();
  const TensorSlot slot{TensorRole::kEmbedding, TensorForm::kMatrix, stack, 0, 0, {spec.vocab, spec.width}};
  return checkpoint.source_of(slot).tensor->name;
}

TEST_CASE("checkpoint: opens the bundled model and finds all its tensors") {
  const Checkpoint checkpoint = Checkpoint::open(repo() + "/models/switch-mini");
  CHECK_NOTHROW(checkpoint.check_tensors());
  CHECK(checkpoint.spec().experts() == 64);
  CHECK(checkpoint.spec().moe_layers() ==
        std::vector<std::string>{"encoder.1", "encoder.3", "decoder.1", "decoder.3"});
  CHECK(checkpoint.dtype_summary() == "mixed");
  CHECK(checkpoint.files().size() == 1);
  CHECK(checkpoint.total_bytes() == 37'842'944);
  CHECK(embedding_name(checkpoint, 0) == "shared.weight");
  const TensorInfo& norm = checkpoint.require("encoder.final_layer_norm.weight", {128});
  std::vector<float> values(128);
  checkpoint.read_f32(norm, values.data());
  for (const float value : values) CHECK(std::isfinite(value));
}

TEST_CASE("checkpoint: every oracle model passes its checks") {
  for (const char* name :
       {"switch-tiny", "switch-tiny-capacity4", "switch-tiny-step1", "switch-tiny-untied", "olmoe-tiny"}) {
    const std::string directory = fixture(name);
    if (directory.empty()) continue;
    CAPTURE(name);
    const Checkpoint checkpoint = Checkpoint::open(directory);
    CHECK_NOTHROW(checkpoint.check_tensors());
    if (std::string(name) == "olmoe-tiny") {
      CHECK(embedding_name(checkpoint, 0) == "model.embed_tokens.weight");
      continue;
    }
    const bool untied = std::string(name) == "switch-tiny-untied";
    CHECK(embedding_name(checkpoint, 0) == (untied ? "encoder.embed_tokens.weight" : "shared.weight"));
    CHECK(embedding_name(checkpoint, 1) == (untied ? "decoder.embed_tokens.weight" : "shared.weight"));
  }
}

TEST_CASE("checkpoint: reads f32, bf16 and f16 as f32, whole or in part") {
  const CheckpointDirectory model;
  const std::vector<float> floats{1.0f, -2.5f, 3.14159f, 1e-40f};
  const std::vector<uint16_t> brains{0x3f80, 0xc020, 0x7fc0, 0x0001};
  const std::vector<uint16_t> halves{0x3c00, 0x7c00, 0x7e01, 0x0001};
  // Longer than one chunk of the converting read.
  std::vector<uint16_t> many(300'001);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<uint16_t>(0x3f80 + i % 100);
  model.write_tensors({{"f", "F32", {4}, bytes_of(floats)},
                       {"b", "BF16", {2, 2}, bytes_of(brains)},
                       {"h", "F16", {4}, bytes_of(halves)},
                       {"m", "BF16", {300'001}, bytes_of(many)},
                       {"i", "I32", {4}, bytes_of(floats)}});
  const Checkpoint checkpoint = model.open();
  float out[4];

  checkpoint.read_f32(*checkpoint.find("f"), out);
  CHECK(std::vector<float>(out, out + 4) == floats);
  checkpoint.read_f32(*checkpoint.find("b"), 1, 2, out);
  CHECK(out[0] == -2.5f);
  CHECK(std::isnan(out[1]));
  checkpoint.read_f32(*checkpoint.find("h"), out);
  CHECK(out[0] == 1.0f);
  CHECK(std::isinf(out[1]));
  CHECK(std::isnan(out[2]));
  CHECK(out[3] == 0x1p-24f);

  std::vector<float> wide(many.size());
  checkpoint.read_f32(*checkpoint.find("m"), wide.data());
  for (size_t i = 0; i < many.size(); ++i) REQUIRE(wide[i] == bf16_to_f32(many[i]));
  checkpoint.read_f32(*checkpoint.find("m"), 150'000, 1000, wide.data());
  CHECK(wide[999] == bf16_to_f32(many[150'999]));
  CHECK_NOTHROW(checkpoint.read_f32(*checkpoint.find("m"), many.size(), 0, wide.data()));

  error_of([&] { checkpoint.read_f32(*checkpoint.find("f"), 3, 2, out); }, "internal");
  error_of([&] { checkpoint.read_f32(*checkpoint.find("f"), 1, UINT64_MAX, out); }, "internal");
  check_has(error_of([&] { checkpoint.read_f32(*checkpoint.find("i"), out); }), {"tensor \"i\"", "I32"});
}

TEST_CASE("checkpoint: a file cut or replaced after it was opened is reported, not read") {
  const CheckpointDirectory model;
  model.write_tensors({{"f", "F32", {4}, std::string(16, '\0')}});
  float out[4];
  const Checkpoint cut = model.open();
  fs::resize_file(model.at("model.safetensors"), 100);
  check_has(error_of([&] { cut.read_f32(*cut.find("f"), out); }), {"model.safetensors", "changed"});
  model.write_tensors({{"f", "F32", {4}, std::string(16, '\0')}});
  const Checkpoint changed = model.open();
  model.write("model.safetensors", build_safetensors({{"f", "F32", {5}, std::string(20, '\0')}}));
  check_has(error_of([&] { changed.read_f32(*changed.find("f"), out); }), {"changed"});
}

TEST_CASE("checkpoint: generation_config.json may name other end tokens") {
  const CheckpointDirectory model;
  model.write_tensors(tiny_tensors());
  const std::vector<int32_t> without = model.open().spec().tokens.end;
  model.write("generation_config.json", R"({"eos_token_id":1,"max_length":20})");
  CHECK(model.open().spec().tokens.end == without);
  model.write("generation_config.json", R"({"eos_token_id":[1,4]})");
  CHECK(model.open().spec().tokens.end == std::vector<int32_t>{1, 4});
}

TEST_CASE("checkpoint: a generation_config.json that is damaged, huge or a link out is refused") {
  const CheckpointDirectory model;
  model.write_tensors(tiny_tensors());
  model.write("generation_config.json", R"({"eos_token_id":10})");
  check_has(error_of([&] { model.open(); }), {"generation_config.json", "\"eos_token_id\"", "0 to 9", "found 10"});
  model.write("generation_config.json", "");
  check_has(error_of([&] { model.open(); }), {"generation_config.json"});
  fs::resize_file(model.at("generation_config.json"), (16 << 20) + 1);
  check_has(error_of([&] { model.open(); }), {"generation_config.json"});
  fs::remove(model.at("generation_config.json"));
  const TempDir outside;
  write_file(outside.path() + "/g.json", "{}");
  fs::create_symlink(outside.path() + "/g.json", model.at("generation_config.json"));
  check_has(error_of([&] { model.open(); }), {"link out", "generation_config.json"});
}

TEST_CASE("checkpoint: an error names missing weights and says what to do") {
  const CheckpointDirectory model;
  check_has(error_of([&] { model.open(); }), {"no weights", "model.safetensors.index.json", "neither"});
  model.write("pytorch_model.bin", "PK");
  check_has(error_of([&] { model.open(); }), {"found pytorch_model.bin", "convert it"});
  fs::remove(model.at("config.json"));
  check_has(error_of([&] { model.open(); }), {"config.json", "missing file"});
  error_of([&] { Checkpoint::open(model.path() + "/none"); });
}

}  // namespace
