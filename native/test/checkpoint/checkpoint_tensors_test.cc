// A checkpoint's tensors against its config: names, shapes, element types, and tensors that are missing or too many.
#include "support/checkpoint_directory.h"

namespace {

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
      {"more layers", with("\"num_layers\":2", "\"num_layers\":4"), {"missing tensor", "encoder.block.2.layer.0"}},
      {"fewer layers",
       tiny_config().replace(base.find("\"num_decoder_layers\":2"), 22, "\"num_decoder_layers\":1"),
       {"decoder.block.0.layer.2.mlp.router", "missing tensor"}},
      {"no encoder.1 experts", tiny_config("\"encoder_sparse_step\":0"), {"encoder.block.1.layer.1.mlp.wi", "missing"}},
      {"other buckets", with("_buckets\":8", "_buckets\":16"), {"relative_attention_bias", "[16, 2]", "[8, 2]"}},
      {"untied without head", tiny_config("\"tie_word_embeddings\":false"), {"lm_head.weight", "missing tensor"}},
  };
  const CheckpointDirectory model;
  model.write_tensors(tiny_tensors());
  CHECK_NOTHROW(model.open().check_tensors());
  for (const Row& row : rows) {
    CASE(row.what);
    model.write("config.json", row.config);
    check_error([&] { model.open().check_tensors(); }, row.parts);
  }
}

TEST_CASE("checkpoint: aliases are accepted, surplus layers and integer weights are not") {
  const Tensors tensors = tiny_tensors();
  const auto check = [](const Tensors& all) { open_checkpoint(tiny_config(), all); };
  const auto with = [&](const BuiltTensor& tensor) {
    Tensors all = tensors;
    all.push_back(tensor);
    return all;
  };
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
                           "some.buffer", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"}) {
    CHECK_NOTHROW(check(with(zeros(name, {10, 4}))));
  }
  // Writers that store a shared tensor once may keep any of its names.
  Tensors renamed = tensors, integers = tensors;
  renamed.front().name = "decoder.embed_tokens.weight";
  CHECK_NOTHROW(check(renamed));
  check_error([&] { check(with(zeros("lm_head.weight", {11, 4}))); }, {"lm_head.weight", "[10, 4]", "[11, 4]"});
  check_error([&] { check(with(zeros("encoder.block.2.layer.0.layer_norm.weight", {4}))); },
              {"encoder.block.2", "2 encoder layers", "3 experts"});
  integers[3].dtype = "I32";
  check_error([&] { check(integers); }, {"dtype", "F32, BF16 or F16", "I32"});
}

TEST_CASE("checkpoint: where an expert's own tensors and a fused one are there, the former are read") {
  const std::string config = tiny_family_config("olmoe");
  Tensors both = tiny_tensors(config, true);
  for (const BuiltTensor& tensor : tiny_tensors(config)) {
    if (tensor.name.find("layers.1.mlp.experts.2.") == std::string::npos) continue;
    both.push_back(tensor);
    count_up(both.back(), 7);
  }
  const Checkpoint checkpoint = open_checkpoint(config, both);
  const std::vector<TensorSlot> slots = expert_slots(checkpoint.spec(), 0, 1, 2);
  CHECK(slots.size() == 3);
  for (const TensorSlot& slot : slots) {
    const SlotData data = checkpoint.source_of(slot);
    float value = 0;
    checkpoint.read_f32(*data.tensor, data.first_row * data.tensor->shape.back(), 1, &value);
    CHECK(value == 7);
  }
}

TEST_CASE("checkpoint: a decoder-only model's missing, misshapen and surplus tensors are named") {
  const std::string config = tiny_family_config("olmoe"), layer = "model.layers.1.";
  const Tensors own = tiny_tensors(config), fused = tiny_tensors(config, true);
  const auto reshaped = [](Tensors tensors, const std::string& name, const std::vector<uint64_t>& shape) {
    tensor_named(tensors, name) = zeros(name, shape);
    return tensors;
  };
  const auto with = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    Tensors tensors = own;
    tensors.push_back(zeros(name, shape));
    return tensors;
  };
  CHECK_NOTHROW(open_checkpoint(config, fused));
  CHECK_NOTHROW(open_checkpoint(config, with("model.layers.0.self_attn.rotary_emb.inv_freq", {1})));
  for (const auto& [tensors, parts] : std::vector<std::pair<Tensors, std::vector<std::string>>>{
           {without(fused, "model.layers.0.mlp.experts.gate_up_proj"),
            {"model.layers.0.mlp.experts.0.gate_proj.weight", "missing tensor", "[6, 8]"}},
           {reshaped(own, layer + "self_attn.k_proj.weight", {8, 8}), {"k_proj", "[4, 8]", "[8, 8]"}},
           {reshaped(own, layer + "self_attn.q_norm.weight", {2}), {"q_norm", "[8]", "[2]"}},
           {reshaped(own, layer + "mlp.experts.2.up_proj.weight", {8, 6}), {"experts.2.up_proj", "[6, 8]"}},
           {reshaped(fused, layer + "mlp.experts.gate_up_proj", {3, 8, 12}),
            {"gate_up_proj", "[3, 12, 8]", "[3, 8, 12]"}},
           {reshaped(fused, layer + "mlp.experts.down_proj", {4, 8, 6}), {"down_proj", "[3, 8, 6]", "[4, 8, 6]"}},
       }) {
    check_error([&] { open_checkpoint(config, tensors); }, parts);
  }
  for (const char* name : {"model.layers.2.input_layernorm.weight", "model.layers.0.self_attn.q_proj.bias",
                           "model.layers.0.mlp.experts.3.up_proj.weight", "model.layers.0.mlp.shared_expert.up_proj"}) {
    check_error([&] { open_checkpoint(config, with(name, {8})); },
                {name, "not of the model", "2 decoder layers and 3 experts"});
  }
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"}) {
    CHECK_NOTHROW(open_checkpoint(tiny_family_config("olmoe", R"("tie_word_embeddings":true)"), without(own, name)));
  }
}

}  // namespace
