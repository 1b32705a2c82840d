#include "checkpoint/checkpoint.h"

#include "support/checkpoint_directory.h"

namespace {

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
  CHECK(checkpoint.spec().moe_layers() == std::vector<std::string>{"encoder.1", "encoder.3", "decoder.1", "decoder.3"});
  CHECK(checkpoint.dtype_summary() == "mixed");
  CHECK(checkpoint.files().size() == 1);
  CHECK(checkpoint.total_bytes() == 37'842'944);
}

TEST_CASE("checkpoint: stacks have one embedding or one each, under its name") {
  const std::string shared = "shared.weight";
  for (const auto& [name, encoder, decoder] : std::vector<std::array<std::string, 3>>{
           {"switch-tiny", shared, shared},
           {"switch-tiny-capacity4", shared, shared},
           {"switch-tiny-untied", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
           {"olmoe-tiny", "model.embed_tokens.weight", ""},
       }) {
    CASE(name);
    const Checkpoint checkpoint = Checkpoint::open(fixture(name));
    CHECK_NOTHROW(checkpoint.check_tensors());
    CHECK(embedding_name(checkpoint, 0) == encoder);
    if (!decoder.empty()) CHECK(embedding_name(checkpoint, 1) == decoder);
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
  check_error([&] { checkpoint.read_f32(*checkpoint.find("i"), out); }, {"tensor \"i\"", "I32"});
}

TEST_CASE("checkpoint: a file cut or replaced after it was opened is reported, not read") {
  const CheckpointDirectory model;
  model.write_tensors({{"f", "F32", {4}, std::string(16, '\0')}});
  float out[4];
  const Checkpoint cut = model.open();
  fs::resize_file(model.at("model.safetensors"), 100);
  check_error([&] { cut.read_f32(*cut.find("f"), out); }, {"model.safetensors", "changed"});
  model.write_tensors({{"f", "F32", {4}, std::string(16, '\0')}});
  const Checkpoint changed = model.open();
  model.write("model.safetensors", build_safetensors({{"f", "F32", {5}, std::string(20, '\0')}}));
  check_error([&] { changed.read_f32(*changed.find("f"), out); }, {"changed"});
}

TEST_CASE("checkpoint: generation_config.json may name other end tokens; damaged, huge or a link out it is refused") {
  const CheckpointDirectory model;
  model.write_tensors(tiny_tensors());
  const std::string name = "generation_config.json";
  const std::vector<int32_t> without = model.open().spec().tokens.end;
  model.write(name, R"({"eos_token_id":1,"max_length":20})");
  CHECK(model.open().spec().tokens.end == without);
  model.write(name, R"({"eos_token_id":[1,4]})");
  CHECK(model.open().spec().tokens.end == std::vector<int32_t>{1, 4});
  model.write(name, R"({"eos_token_id":10})");
  check_error([&] { model.open(); }, {name, "\"eos_token_id\"", "0 to 9", "found 10"});
  model.write(name, "");
  check_error([&] { model.open(); }, {name});
  fs::resize_file(model.at(name), (16 << 20) + 1);
  check_error([&] { model.open(); }, {name});
  fs::remove(model.at(name));
  const TempDir outside;
  write_file(outside.path() + "/g.json", "{}");
  fs::create_symlink(outside.path() + "/g.json", model.at(name));
  check_error([&] { model.open(); }, {"link out", name});
}

TEST_CASE("checkpoint: an error names missing weights and says what to do") {
  const CheckpointDirectory model;
  check_error([&] { model.open(); }, {"no weights", "model.safetensors, pytorch_model.bin or", "none"});
  fs::remove(model.at("config.json"));
  check_error([&] { model.open(); }, {"config.json", "missing file"});
  error_of([&] { Checkpoint::open(model.path() + "/none"); });
}

}  // namespace
