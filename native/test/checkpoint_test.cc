#include "checkpoint/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "doctest/doctest.h"
#include "error_checks.h"
#include "repo_paths.h"
#include "safetensors_builder.h"
#include "tiny_model.h"

namespace {

using namespace sida;
using namespace sida::testing;

namespace fs = std::filesystem;

class Model {
 public:
  Model() { write("config.json", tiny_config()); }
  const std::string& path() const { return directory_.path(); }
  std::string at(const std::string& name) const { return path() + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const { write_file(at(name), bytes); }
  void write_tensors(const std::vector<BuiltTensor>& tensors,
                     const std::string& name = "model.safetensors") const {
    write(name, build_safetensors(tensors));
  }
  void write_index(const std::string& map, const std::string& metadata = "{}") const {
    write("model.safetensors.index.json", R"({"metadata":)" + metadata + R"(,"weight_map":{)" + map + "}}");
  }
  Checkpoint open() const { return Checkpoint::open(path()); }

 private:
  TempDir directory_;
};

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
  // Names packs of it in the cache of every machine.
  CHECK(checkpoint.fingerprint() == "03c44e789e3337acc3219f2b5cb45ea7c18714f6b11fe04fa5b32ab28a230848");
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
  const Model model;
  const std::vector<float> floats{1.0f, -2.5f, 3.14159f, 1e-40f};
  const std::vector<uint16_t> brains{0x3f80, 0xc020, 0x7fc0, 0x0001};
  const std::vector<uint16_t> halves{0x3c00, 0x7c00, 0x7e01, 0x0001};
  // Longer than one piece of the converting read.
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
  const Model model;
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

TEST_CASE("checkpoint: the fingerprint names config and headers") {
  const Model model;
  model.write_tensors({{"f", "F32", {4}, std::string(16, '\0')}});
  const std::string first = model.open().fingerprint();
  CHECK(first.size() == 64);
  CHECK(model.open().fingerprint() == first);
  model.write_tensors({{"g", "F32", {4}, std::string(16, '\0')}});
  const std::string second = model.open().fingerprint();
  CHECK(second != first);
  model.write("config.json", tiny_config() + " ");
  CHECK(model.open().fingerprint() != second);
}

TEST_CASE("checkpoint: the fingerprint names the tokens of generation_config.json where they are others") {
  const Model model;
  model.write_tensors(tiny_tensors());
  const std::string without = model.open().fingerprint();
  model.write("generation_config.json", R"({"eos_token_id":1,"max_length":20})");
  CHECK(model.open().fingerprint() == without);
  model.write("generation_config.json", R"({"eos_token_id":[1,4]})");
  const Checkpoint checkpoint = model.open();
  CHECK(checkpoint.spec().tokens.end == std::vector<int32_t>{1, 4});
  CHECK(checkpoint.fingerprint() != without);
}

TEST_CASE("checkpoint: a generation_config.json that is damaged, huge or elsewhere is refused") {
  const Model model;
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

TEST_CASE("checkpoint: missing weights are named with what to do") {
  const Model model;
  check_has(error_of([&] { model.open(); }), {"no weights", "model.safetensors.index.json", "neither"});
  model.write("pytorch_model.bin", "PK");
  check_has(error_of([&] { model.open(); }), {"found pytorch_model.bin", "convert it"});
  fs::remove(model.at("config.json"));
  check_has(error_of([&] { model.open(); }), {"config.json", "missing file"});
  error_of([&] { Checkpoint::open(model.path() + "/none"); });
}

TEST_CASE("checkpoint: shards are opened through their index") {
  const Model model;
  const std::vector<BuiltTensor> tensors = tiny_tensors();
  const auto middle = tensors.begin() + 9;
  model.write_tensors({tensors.begin(), middle}, "s1.safetensors");
  model.write_tensors({middle, tensors.end()}, "s2.safetensors");
  std::string map;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    map += (i == 0 ? "\"" : ",\"") + tensors[i].name + "\":\"" + (i < 9 ? "s1" : "s2") + ".safetensors\"";
    bytes += tensors[i].data.size();
  }
  const std::string total = std::to_string(bytes);
  model.write_index(map, "{\"total_size\":" + total + "}");
  const Checkpoint checkpoint = model.open();
  CHECK(checkpoint.files().size() == 2);
  CHECK(checkpoint.tensor_count() == tensors.size());
  CHECK(checkpoint.total_bytes() == bytes);
  CHECK_NOTHROW(checkpoint.check_tensors());
  CHECK(checkpoint.find(tensors.back().name)->file == 1);

  model.write_index(map, "{}");
  CHECK_NOTHROW(model.open());
  model.write_index(map, "{\"total_size\":" + total + ".0}");
  CHECK_NOTHROW(model.open());
  model.write_index(map, "{\"total_size\":7}");
  check_has(error_of([&] { model.open(); }), {"total_size", "expected " + total, "found 7"});
  model.write_index(map, "{\"total_size\":\"7\"}");
  check_has(error_of([&] { model.open(); }), {"total_size", "found \"7\""});
}

TEST_CASE("checkpoint: an index that lies is refused") {
  const std::string a = "\"a\":\"s1.safetensors\"";
  struct Row {
    const char* what;
    std::string map;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {"parent directory", R"("a":"../s1.safetensors")", {"bad file name", "\"../s1.safetensors\""}},
      {"dot dot", R"("a":"..")", {"bad file name"}},
      {"absolute", R"("a":"/etc/passwd")", {"bad file name", "/etc/passwd"}},
      {"URL", R"("a":"https://x.y/s1.safetensors")", {"bad file name", "https:"}},
      {"backslash", R"("a":"..\\s1.safetensors")", {"bad file name"}},
      {"NUL", R"("a":"s1.safetensors\u0000x")", {"bad file name", "\\u0000"}},
      {"empty", R"("a":"")", {"bad file name"}},
      {"4 KiB name", "\"a\":\"" + std::string(4096, 's') + "\"", {"bad file name"}},
      {"not a string", R"("a":1)", {"tensor \"a\"", "a file name", "found 1"}},
      {"link out of the directory", R"("a":"out.safetensors")", {"link out", "out.safetensors"}},
      {"link in a circle", R"("a":"circle.safetensors")", {"cannot follow", "circle.safetensors"}},
      {"missing shard", a + R"(,"b":"s9.safetensors")", {"tensor \"b\"", "missing shard", "s9.safetensors"}},
      {"dangling link", R"("a":"dangling.safetensors")", {"missing shard", "dangling.safetensors"}},
      {"tensor in two shards", a + R"(,"b":"s2.safetensors")", {"tensor \"a\"", "s2.safetensors"}},
      {"tensor that its shard lacks", a + R"(,"c":"s1.safetensors")", {"tensor \"c\"", "not in its shard"}},
      {"tensor that the index lacks", R"("b":"s2.safetensors")", {"tensor \"a\"", "does not give it"}},
      {"one shard by two names", a + R"(,"x":"same.safetensors")", {"two names for one shard"}},
      {"tensor named twice", a + "," + a, {"\"a\" twice"}},
      {"empty", "", {"empty", "at least one tensor"}},
  };
  const TempDir outside;
  write_file(outside.path() + "/o.safetensors", build_safetensors({zeros("a", {1})}));
  const Model model;
  model.write_tensors({zeros("a", {1})}, "s1.safetensors");
  model.write_tensors({zeros("a", {1}), zeros("b", {1})}, "s2.safetensors");
  fs::create_symlink(outside.path() + "/o.safetensors", model.at("out.safetensors"));
  fs::create_symlink("circle.safetensors", model.at("circle.safetensors"));
  fs::create_symlink("nothing", model.at("dangling.safetensors"));
  fs::create_symlink("s1.safetensors", model.at("same.safetensors"));
  for (const Row& row : rows) {
    CAPTURE(row.what);
    model.write_index(row.map);
    check_has(error_of([&] { model.open(); }), row.parts);
  }
  fs::create_directory(model.at("d.safetensors"));
  model.write_index(R"("a":"d.safetensors")");
  check_has(error_of([&] { model.open(); }), {"d.safetensors", "a regular file", "a directory"});
  REQUIRE(::mkfifo(model.at("f.safetensors").c_str(), 0600) == 0);
  model.write_index(R"("a":"f.safetensors")");
  check_has(error_of([&] { model.open(); }), {"f.safetensors", "a regular file"});
  for (const char* text : {"[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":"}) {
    model.write("model.safetensors.index.json", text);
    error_of([&] { model.open(); });
  }
  std::string many = "\"0\":\"s\"";
  for (int i = 1; i < 2'000'000; ++i) many += ",\"" + std::to_string(i) + "\":\"s\"";
  model.write_index(many);
  check_has(error_of([&] { model.open(); }), {"at most 41943040 bytes of values"});
  model.write("model.safetensors.index.json", std::string(65 << 20, ' '));
  check_has(error_of([&] { model.open(); }), {"at most 67108864 bytes", "found 68157440"});
  model.write_index(a);
  CHECK_NOTHROW(model.open());
}

TEST_CASE("checkpoint: links of the Hugging Face cache are followed, others are not") {
  const TempDir cache;
  const std::string snapshot = cache.path() + "/snapshots/abc";
  fs::create_directories(snapshot);
  fs::create_directories(cache.path() + "/blobs");
  write_file(cache.path() + "/blobs/1", tiny_config());
  write_file(cache.path() + "/blobs/2", build_safetensors(tiny_tensors()));
  fs::create_symlink("../../blobs/1", snapshot + "/config.json");
  fs::create_symlink("../../blobs/2", snapshot + "/model.safetensors");
  CHECK_NOTHROW(Checkpoint::open(snapshot).check_tensors());
  fs::remove(snapshot + "/config.json");
  write_file(cache.path() + "/config.json", tiny_config());
  fs::create_symlink("../../config.json", snapshot + "/config.json");
  check_has(error_of([&] { Checkpoint::open(snapshot); }), {"link out"});
}

TEST_CASE("checkpoint: weights of another shape than the config are refused") {
  struct Row {
    const char* what;
    std::string config;
    std::vector<std::string> parts;
  };
  const std::string base = tiny_config();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = base;
    return text.replace(text.find(from), from.size(), to);
  };
  const Row rows[] = {
      {"more experts", with("\"num_experts\":3", "\"num_experts\":4"), {"router", "[4, 4]", "[3, 4]"}},
      {"fewer experts", with("\"num_experts\":3", "\"num_experts\":2"), {"router", "[2, 4]", "[3, 4]"}},
      {"other hidden size", with("\"d_model\":4", "\"d_model\":8"), {"shared.weight", "[10, 8]", "[10, 4]"}},
      {"other vocabulary", with("\"vocab_size\":10", "\"vocab_size\":11"), {"[11, 4]", "[10, 4]"}},
      {"more layers",
       with("\"num_layers\":2", "\"num_layers\":4"),
       {"missing tensor", "encoder.block.2.layer.0"}},
      {"fewer layers",
       tiny_config().replace(base.find("\"num_decoder_layers\":2"), 22, "\"num_decoder_layers\":1"),
       {"decoder.block.0.layer.2.mlp.router", "missing tensor"}},
      {"no encoder.1 experts",
       tiny_config("\"encoder_sparse_step\":0"),
       {"encoder.block.1.layer.1.mlp.wi", "missing"}},
      {"other buckets",
       with("_buckets\":8", "_buckets\":16"),
       {"relative_attention_bias", "[16, 2]", "[8, 2]"}},
      {"untied without head",
       tiny_config("\"tie_word_embeddings\":false"),
       {"lm_head.weight", "missing tensor"}},
  };
  const Model model;
  model.write_tensors(tiny_tensors());
  CHECK_NOTHROW(model.open().check_tensors());
  for (const Row& row : rows) {
    CAPTURE(row.what);
    model.write("config.json", row.config);
    check_has(error_of([&] { model.open().check_tensors(); }), row.parts);
  }
}

TEST_CASE("checkpoint: aliases are accepted, surplus layers and integer weights are not") {
  const Model model;
  std::vector<BuiltTensor> tensors = tiny_tensors();
  const auto check = [&](std::vector<BuiltTensor> all) {
    model.write_tensors(all);
    model.open().check_tensors();
  };
  std::vector<BuiltTensor> aliased = tensors;
  for (const char* name :
       {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight", "some.buffer",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}) {
    aliased.push_back(zeros(name, {10, 4}));
  }
  CHECK_NOTHROW(check(aliased));
  // Writers that store a shared tensor once may keep any of its names.
  std::vector<BuiltTensor> renamed = tensors;
  renamed.front().name = "decoder.embed_tokens.weight";
  CHECK_NOTHROW(check(renamed));
  std::vector<BuiltTensor> misshapen = tensors;
  misshapen.push_back(zeros("lm_head.weight", {11, 4}));
  check_has(error_of([&] { check(misshapen); }), {"lm_head.weight", "[10, 4]", "[11, 4]"});
  std::vector<BuiltTensor> surplus = tensors;
  surplus.push_back(zeros("encoder.block.2.layer.0.layer_norm.weight", {4}));
  check_has(error_of([&] { check(surplus); }), {"encoder.block.2", "2 encoder layers", "3 experts"});
  std::vector<BuiltTensor> integers = tensors;
  integers[3].dtype = "I32";
  check_has(error_of([&] { check(integers); }), {"dtype", "F32, BF16 or F16", "I32"});
}

/// A decoder-only model's directory.
class OlmoeModel : public Model {
 public:
  OlmoeModel() { write("config.json", tiny_olmoe_config()); }
};

/// Gives each element of a tensor a number of its own.
void count_up(BuiltTensor& tensor, float from) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<float>(i);
  tensor.data = bytes_of(values);
}

TEST_CASE("checkpoint: experts are read one tensor each or out of a fused one") {
  const OlmoeModel model;
  std::vector<BuiltTensor> fused = tiny_tensors(tiny_olmoe_config(), true);
  for (BuiltTensor& tensor : fused) {
    if (tensor.name == "model.layers.1.mlp.experts.gate_up_proj") {
      CHECK(tensor.shape == std::vector<uint64_t>{3, 12, 8});
      count_up(tensor, 1000);
    }
    if (tensor.name == "model.layers.1.mlp.experts.down_proj") {
      CHECK(tensor.shape == std::vector<uint64_t>{3, 8, 6});
      count_up(tensor, 5000);
    }
  }
  model.write_tensors(fused);
  const Checkpoint checkpoint = model.open();
  CHECK_NOTHROW(checkpoint.check_tensors());
  const auto first_of = [](const Checkpoint& from, const TensorSlot& slot) {
    const SlotData data = from.source_of(slot);
    float value = 0;
    from.read_f32(*data.tensor, data.first_element, 1, &value);
    return value;
  };
  const std::vector<TensorSlot> slots = expert_slots(checkpoint.spec(), 0, 1, 2);
  REQUIRE(slots.size() == 3);
  // Expert 2's gates, then its ups; each (6, 8).
  CHECK(first_of(checkpoint, slots[0]) == 1000 + 2 * 12 * 8);
  CHECK(first_of(checkpoint, slots[1]) == 1000 + 2 * 12 * 8 + 6 * 8);
  CHECK(first_of(checkpoint, slots[2]) == 5000 + 2 * 8 * 6);

  // One tensor a matrix is taken where both are there.
  for (const TensorSlot& slot : slots) {
    const bool gate = slot.role == TensorRole::kExpertGate, up = slot.role == TensorRole::kExpertUp;
    BuiltTensor own = zeros(std::string("model.layers.1.mlp.experts.2.") + (gate ? "gate" : up ? "up" : "down") +
                                "_proj.weight",
                            slot.shape);
    count_up(own, 7);
    fused.push_back(own);
  }
  model.write_tensors(fused);
  const Checkpoint both = model.open();
  CHECK_NOTHROW(both.check_tensors());
  for (const TensorSlot& slot : slots) CHECK(first_of(both, slot) == 7);
}

TEST_CASE("checkpoint: a decoder-only model's missing, misshapen and surplus tensors are named") {
  const OlmoeModel model;
  const auto check = [&](const std::function<void(std::vector<BuiltTensor>&)>& change, bool fused = false) {
    std::vector<BuiltTensor> tensors = tiny_tensors(tiny_olmoe_config(), fused);
    change(tensors);
    model.write_tensors(tensors);
    model.open().check_tensors();
  };
  const auto without = [&](const std::string& name, bool fused = false) {
    return error_of([&] {
      check([&](auto& all) { std::erase_if(all, [&](const BuiltTensor& tensor) { return tensor.name == name; }); },
            fused);
    });
  };
  const auto reshaped = [&](const std::string& name, const std::vector<uint64_t>& shape, bool fused = false) {
    return error_of([&] {
      check(
          [&](auto& all) {
            for (BuiltTensor& tensor : all) {
              if (tensor.name == name) tensor = zeros(name, shape);
            }
          },
          fused);
    });
  };
  CHECK_NOTHROW(check([](auto&) {}));
  CHECK_NOTHROW(check([](auto&) {}, true));
  CHECK_NOTHROW(check([](auto& all) { all.push_back(zeros("model.layers.0.self_attn.rotary_emb.inv_freq", {1})); }));
  for (const BuiltTensor& tensor : tiny_tensors(tiny_olmoe_config())) {
    check_has(without(tensor.name), {"tensor \"" + tensor.name + "\"", "missing tensor"});
  }
  check_has(without("model.layers.0.mlp.experts.gate_up_proj", true),
            {"model.layers.0.mlp.experts.0.gate_proj.weight", "missing tensor", "[6, 8]"});
  check_has(reshaped("model.layers.1.self_attn.k_proj.weight", {8, 8}), {"k_proj", "[4, 8]", "[8, 8]"});
  check_has(reshaped("model.layers.1.self_attn.q_norm.weight", {2}), {"q_norm", "[8]", "[2]"});
  check_has(reshaped("model.layers.1.mlp.experts.2.up_proj.weight", {8, 6}), {"experts.2.up_proj", "[6, 8]"});
  check_has(reshaped("model.layers.1.mlp.experts.gate_up_proj", {3, 8, 12}, true),
            {"gate_up_proj", "[3, 12, 8]", "[3, 8, 12]"});
  check_has(reshaped("model.layers.1.mlp.experts.down_proj", {4, 8, 6}, true), {"down_proj", "[3, 8, 6]", "[4, 8, 6]"});
  for (const char* name : {"model.layers.2.input_layernorm.weight", "model.layers.0.self_attn.q_proj.bias",
                           "model.layers.0.mlp.experts.3.up_proj.weight", "model.layers.0.mlp.shared_expert.up_proj"}) {
    check_has(error_of([&] { check([&](auto& all) { all.push_back(zeros(name, {8})); }); }),
              {name, "not of the model", "2 decoder layers and 3 experts"});
  }
  model.write("config.json", tiny_olmoe_config(R"("tie_word_embeddings":true)"));
  CHECK_NOTHROW(check([](auto& all) {
    std::erase_if(all, [](const BuiltTensor& tensor) { return tensor.name == "lm_head.weight"; });
  }));
  CHECK_NOTHROW(check([](auto& all) {
    std::erase_if(all, [](const BuiltTensor& tensor) { return tensor.name == "model.embed_tokens.weight"; });
  }));
}

}  // namespace
