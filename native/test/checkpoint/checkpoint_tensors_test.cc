// A checkpoint's tensors against its config: names, shapes, element types, and tensors that are missing or too many.
#include <functional>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/checkpoint_directory.h"
#include "support/error_checks.h"

namespace {

using namespace sida;
using namespace sida::testing;

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
  const CheckpointDirectory model;
  model.write_tensors(tiny_tensors());
  CHECK_NOTHROW(model.open().check_tensors());
  for (const Row& row : rows) {
    CAPTURE(row.what);
    model.write("config.json", row.config);
    check_has(error_of([&] { model.open().check_tensors(); }), row.parts);
  }
}

TEST_CASE("checkpoint: aliases are accepted, surplus layers and integer weights are not") {
  const CheckpointDirectory model;
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

/// Gives each element of a tensor a number of its own.
void count_up(BuiltTensor& tensor, float from) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<float>(i);
  tensor.data = bytes_of(values);
}

TEST_CASE("checkpoint: experts are read from one tensor each or from a fused one") {
  const CheckpointDirectory model(tiny_olmoe_config());
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
    from.read_f32(*data.tensor, data.first_row * data.tensor->shape.back(), 1, &value);
    return value;
  };
  const std::vector<TensorSlot> slots = expert_slots(checkpoint.spec(), 0, 1, 2);
  REQUIRE(slots.size() == 3);
  // Expert 2's gates, then its ups; each (6, 8).
  CHECK(first_of(checkpoint, slots[0]) == 1000 + 2 * 12 * 8);
  CHECK(first_of(checkpoint, slots[1]) == 1000 + 2 * 12 * 8 + 6 * 8);
  CHECK(first_of(checkpoint, slots[2]) == 5000 + 2 * 8 * 6);

  // Where both are there, the tensor of the single matrix is read.
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
  const CheckpointDirectory model(tiny_olmoe_config());
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
