// Where the checkpoints of each family hold their tensors: names, shapes, and the numbers of each slot.
#include "checkpoint/pack_formats.h"
#include "checkpoint/slot_reader.h"
#include "support/checkpoint_directory.h"
#include "support/test_pack.h"

namespace {

TensorSlot slot_of(const ModelSpec& spec, TensorRole role, size_t layer, size_t expert = 0) {
  std::vector<TensorSlot> found;
  for_each_slot(spec, [&](const TensorSlot& slot) {
    if (slot.role == role && slot.layer == layer && slot.expert == expert) found.push_back(slot);
  });
  REQUIRE(found.size() == 1);
  return found[0];
}

/// All numbers of a slot in layer 1, read two rows at a time.
std::vector<float> read(const Checkpoint& checkpoint, TensorRole role, size_t expert = 0) {
  const TensorSlot slot = slot_of(checkpoint.spec(), role, 1, expert);
  const uint64_t n = slot.shape[0], k = slot.shape.size() > 1 ? slot.shape[1] : 1;
  std::vector<float> all, some;
  for (uint64_t row = 0; row < n; row += 2) {
    read_rows(checkpoint, checkpoint.source_of(slot), row, std::min<uint64_t>(2, n - row), k, kF32Format, some);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// A matrix (n, k) of what `at` says of row and column.
std::vector<float> matrix(size_t n, size_t k, const std::function<size_t(size_t, size_t)>& at) {
  std::vector<float> values;
  for (size_t i = 0; i < n * k; ++i) values.push_back(static_cast<float>(at(i / k, i % k)));
  return values;
}

TEST_CASE("family tensors: a checkpoint that has all is accepted, and each that is missing is named") {
  for (const std::string family : kFamilies) {
    CASE(family);
    const std::string config = tiny_family_config(family, family == "nllb-moe" ? R"("router_bias":true)" : "");
    const Tensors all = tiny_tensors(config);
    CHECK_NOTHROW(open_checkpoint(config, all));
    for (const BuiltTensor& left_out : all) {
      check_error([&] { open_checkpoint(config, without(all, left_out.name)); },
                  {"tensor \"" + left_out.name + "\"", "missing tensor"});
    }
  }
}

TEST_CASE("family tensors: experts are also read from tensors that hold all of a layer's") {
  for (const std::string family :
       {"olmoe", "mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "glm4_moe", "glm4_moe_lite"}) {
    CASE(family);
    const std::string config = tiny_family_config(family);
    Tensors fused = tiny_tensors(config, true);
    BuiltTensor& both = tensor_named(fused, "model.layers.1.mlp.experts.gate_up_proj");
    CHECK(both.shape == std::vector<uint64_t>{3, 12, 8});
    count_up(both);
    BuiltTensor& down = tensor_named(fused, "model.layers.1.mlp.experts.down_proj");
    CHECK(down.shape == std::vector<uint64_t>{3, 8, 6});
    count_up(down);
    const Checkpoint checkpoint = open_checkpoint(config, fused);
    for (size_t e = 0; e < 3; ++e) {
      const auto rows = [&](size_t n, size_t k, size_t first) {
        return matrix(n, k, [=](size_t i, size_t j) { return (first + i) * k + j; });
      };
      CHECK(read(checkpoint, TensorRole::kExpertGate, e) == rows(6, 8, e * 12));
      CHECK(read(checkpoint, TensorRole::kExpertUp, e) == rows(6, 8, e * 12 + 6));
      CHECK(read(checkpoint, TensorRole::kExpertDown, e) == rows(8, 6, e * 8));
    }
  }
}

/// Rows (n, k) of a tensor that counts up, each the one that `row` names.
std::vector<float> counted_rows(size_t n, size_t k, const std::function<size_t(size_t)>& row) {
  return matrix(n, k, [&](size_t i, size_t j) { return row(i) * k + j; });
}

TEST_CASE("family tensors: Qwen3-Next has the projections of a delta rule by key head, and gates behind queries") {
  const std::string config = tiny_family_config("qwen3_next");
  Tensors tensors = tiny_tensors(config);
  const std::string rule = "model.layers.1.linear_attn.";
  for (const char* name : {"in_proj_qkvz.weight", "in_proj_ba.weight", "conv1d.weight", "A_log", "dt_bias"}) {
    count_up(tensor_named(tensors, rule + name));
  }
  count_up(tensor_named(tensors, "model.layers.0.self_attn.q_proj.weight"));
  count_up(tensor_named(tensors, "model.layers.1.input_layernorm.weight"));
  const Checkpoint checkpoint = open_checkpoint(config, tensors);
  // A key head has 3 queries, 3 keys, 2 · 2 values and 2 · 2 gates.
  const auto of_head = [](size_t first, size_t rows) {
    return [=](size_t i) { return i / rows * 14 + first + i % rows; };
  };
  CHECK(read(checkpoint, TensorRole::kQuery) == counted_rows(6, 8, of_head(0, 3)));
  CHECK(read(checkpoint, TensorRole::kKey) == counted_rows(6, 8, of_head(3, 3)));
  CHECK(read(checkpoint, TensorRole::kValue) == counted_rows(8, 8, of_head(6, 4)));
  CHECK(read(checkpoint, TensorRole::kOutputGate) == counted_rows(8, 8, of_head(10, 4)));
  CHECK(read(checkpoint, TensorRole::kBeta) == counted_rows(4, 8, [](size_t i) { return i / 2 * 4 + i % 2; }));
  CHECK(read(checkpoint, TensorRole::kDecay) == counted_rows(4, 8, [](size_t i) { return i / 2 * 4 + 2 + i % 2; }));
  CHECK(read(checkpoint, TensorRole::kKeyTaps) == counted_rows(6, 4, [](size_t i) { return 6 + i; }));
  CHECK(read(checkpoint, TensorRole::kValueTaps) == counted_rows(8, 4, [](size_t i) { return 12 + i; }));
  CHECK(read(checkpoint, TensorRole::kDecayBias) == std::vector<float>{0, 1, 2, 3});
  const std::vector<float> rates = read(checkpoint, TensorRole::kDecayRate);
  CHECK(rates[0] == -1);
  CHECK(std::abs(rates[3] + std::exp(3.0f)) < 1e-5);
  CHECK(read(checkpoint, TensorRole::kAttentionNorm) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  std::vector<float> gates;
  const TensorSlot slot = slot_of(checkpoint.spec(), TensorRole::kOutputGate, 0);
  read_rows(checkpoint, checkpoint.source_of(slot), 0, 16, 8, kF32Format, gates);
  CHECK(gates == counted_rows(16, 8, [](size_t i) { return i / 8 * 16 + 8 + i % 8; }));
}

TEST_CASE("family tensors: an old GGUF file of Qwen3-Next has the projections of a delta rule as transformers does") {
  const ModelConfig model = parse_model_config(tiny_family_config("qwen3_next"), "config.json");
  for (const TensorRole role : {TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue, TensorRole::kOutputGate}) {
    const TensorSlot slot = slot_of(model.spec, role, 1);
    const TensorSource::Candidate ours = model.family->source(model.spec, slot).candidates.front();
    const std::vector<TensorSource::Candidate> old = model.family->gguf->source(model.spec, slot).candidates;
    REQUIRE(old.size() == 2);
    CHECK(old.back().name == "blk.1.ssm_in.weight");
    CHECK(old.back().shape == ours.shape);
    CHECK(old.back().first_row == ours.first_row);
    CHECK(old.back().row_step == ours.row_step);
    CHECK(old.back().row_runs == ours.row_runs);
  }
}

TEST_CASE("family tensors: Qwen3.5 has value heads by key head, which the model tiles, with a vision part or without") {
  const std::string config = tiny_family_config("qwen3_5_moe_text");
  Tensors tensors = tiny_tensors(config);
  const std::string rule = "model.language_model.layers.1.linear_attn.";
  for (const char* name : {"in_proj_qkv.weight", "in_proj_z.weight", "in_proj_b.weight", "A_log", "dt_bias",
                           "conv1d.weight", "out_proj.weight"}) {
    count_up(tensor_named(tensors, rule + name));
  }
  // Heads 0 and 1 belong to the first key head.
  const auto head = [](size_t i) { return i % 2 * 2 + i / 2; };
  const auto check = [&](const Tensors& all) {
    const Checkpoint checkpoint = open_checkpoint(config, all);
    CHECK(read(checkpoint, TensorRole::kKey) == counted_rows(6, 8, [](size_t i) { return 6 + i; }));
    const auto of_values = [&](size_t first) { return [=](size_t i) { return first + head(i / 2) * 2 + i % 2; }; };
    CHECK(read(checkpoint, TensorRole::kValue) == counted_rows(8, 8, of_values(12)));
    CHECK(read(checkpoint, TensorRole::kOutputGate) == counted_rows(8, 8, of_values(0)));
    CHECK(read(checkpoint, TensorRole::kValueTaps) == counted_rows(8, 4, of_values(12)));
    CHECK(read(checkpoint, TensorRole::kBeta) == counted_rows(4, 8, head));
    CHECK(read(checkpoint, TensorRole::kDecayBias) == std::vector<float>{0, 2, 1, 3});
    CHECK(read(checkpoint, TensorRole::kAttentionOutput) ==
          matrix(8, 8, [&](size_t i, size_t j) { return i * 8 + of_values(0)(j); }));
  };
  tensors.push_back(zeros("model.visual.patch_embed.proj.weight", {4, 4}));
  tensors.push_back(zeros("mtp.layers.0.input_layernorm.weight", {8}));
  check(tensors);
  for (BuiltTensor& tensor : tensors) {
    if (tensor.name.starts_with("model.language_model.")) tensor.name.replace(0, 21, "model.");
  }
  check(tensors);
  tensors.push_back(zeros("model.language_model.layers.2.input_layernorm.weight", {8}));
  check_error([&] { open_checkpoint(config, tensors); }, {"layers.2.input_layernorm", "not of the model"});
}

TEST_CASE("family tensors: a mixtral checkpoint may have the newer name of its block") {
  const std::string config = tiny_family_config("mixtral");
  Tensors tensors = tiny_tensors(config);
  for (BuiltTensor& tensor : tensors) {
    const size_t at = tensor.name.find("block_sparse_moe.");
    if (at != std::string::npos) tensor.name.replace(at, 17, "mlp.");
  }
  CHECK_NOTHROW(open_checkpoint(config, tensors));
}

TEST_CASE("family tensors: NLLB-MoE's embedding may have any of its names, and tensors of no layer are refused") {
  const std::string config = tiny_family_config("nllb-moe");
  const Tensors all = tiny_tensors(config);
  for (const char* name :
       {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}) {
    CASE(name);
    Tensors tensors = all;
    tensors.push_back(zeros(name, {10, 8}));
    CHECK_NOTHROW(open_checkpoint(config, tensors));
    CHECK_NOTHROW(open_checkpoint(config, without(tensors, "model.shared.weight")));
  }
  Tensors tensors = all;
  tensors.push_back(zeros("model.encoder.embed_positions.weights", {66, 8}));
  CHECK_NOTHROW(open_checkpoint(config, tensors));
  const std::string surplus = "model.encoder.layers.2.ffn.fc1.weight";
  tensors.push_back(zeros(surplus, {6, 8}));
  check_error([&] { open_checkpoint(config, tensors); }, {surplus, "not of the model"});
}

TEST_CASE("family tensors: nomic's projections lie in one matrix, and its second expert matrices are transposed") {
  const std::string config = tiny_family_config("nomic_bert");
  Tensors tensors = tiny_tensors(config);
  for (const char* name : {"attn.Wqkv.weight", "attn.Wqkv.bias", "mlp.experts.mlp.w1", "mlp.experts.mlp.w2"}) {
    count_up(tensor_named(tensors, std::string("encoder.layers.1.") + name));
  }
  const Checkpoint checkpoint = open_checkpoint(config, tensors);
  const auto rows = [](size_t n, size_t first) {
    return matrix(n, 8, [=](size_t i, size_t j) { return (first + i) * 8 + j; });
  };
  CHECK(read(checkpoint, TensorRole::kQuery) == rows(8, 0));
  CHECK(read(checkpoint, TensorRole::kKey) == rows(8, 8));
  CHECK(read(checkpoint, TensorRole::kValue) == rows(8, 16));
  CHECK(read(checkpoint, TensorRole::kValueBias) == matrix(8, 1, [](size_t i, size_t) { return 16 + i; }));
  for (size_t e = 0; e < 3; ++e) {
    CHECK(read(checkpoint, TensorRole::kExpertUp, e) == rows(6, e * 6));
    CHECK(read(checkpoint, TensorRole::kExpertDown, e) ==
          matrix(8, 6, [=](size_t i, size_t j) { return (e * 6 + j) * 8 + i; }));
  }
  Tensors surplus = tensors;
  surplus.push_back(zeros("encoder.layers.2.attn.Wqkv.bias", {24}));
  check_error([&] { open_checkpoint(config, surplus); }, {"encoder.layers.2.attn.Wqkv.bias", "not of the model"});
}

TEST_CASE("family tensors: latent attention takes its slots from parts of two matrices") {
  for (const std::string family : {"deepseek_v2", "deepseek_v3", "glm4_moe_lite"}) {
    CASE(family);
    const std::string config = tiny_family_config(family);
    Tensors tensors = tiny_tensors(config);
    count_up(tensor_named(tensors, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight"));
    count_up(tensor_named(tensors, "model.layers.1.self_attn.kv_b_proj.weight"));
    const Checkpoint checkpoint = open_checkpoint(config, tensors);
    CHECK(read(checkpoint, TensorRole::kLatent) == matrix(5, 8, [](size_t i, size_t j) { return i * 8 + j; }));
    CHECK(read(checkpoint, TensorRole::kLatentRotary) ==
          matrix(2, 8, [](size_t i, size_t j) { return (5 + i) * 8 + j; }));
    // A head has 4 rows for keys, whose slot is transposed, and 6 for values.
    for (size_t head = 0; head < 2; ++head) {
      CHECK(read(checkpoint, TensorRole::kLatentKey, head) ==
            matrix(5, 4, [&](size_t i, size_t j) { return (head * 10 + j) * 5 + i; }));
      CHECK(read(checkpoint, TensorRole::kLatentValue, head) ==
            matrix(6, 5, [&](size_t i, size_t j) { return (head * 10 + 4 + i) * 5 + j; }));
    }
  }
  const std::string biased = tiny_family_config("deepseek_v3", R"("attention_bias":true)");
  Tensors tensors = tiny_tensors(biased);
  CHECK(tensor_named(tensors, "model.layers.1.self_attn.q_a_proj.bias").shape == std::vector<uint64_t>{3});
  CHECK(tensor_named(tensors, "model.layers.1.self_attn.o_proj.bias").shape == std::vector<uint64_t>{8});
  count_up(tensor_named(tensors, "model.layers.1.self_attn.kv_a_proj_with_mqa.bias"));
  const Checkpoint checkpoint = open_checkpoint(biased, tensors);
  CHECK(read(checkpoint, TensorRole::kLatentBias) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(read(checkpoint, TensorRole::kLatentRotaryBias) == std::vector<float>{5, 6});
  const std::string config = R"({"model_type":"deepseek_v2","num_experts_per_tok":2,"q_lora_rank":null})";
  const ModelConfig whole = parse_model_config(config, "config.json");
  const TensorSlot query = slot_of(whole.spec, TensorRole::kQuery, 1);
  CHECK(query.shape == std::vector<uint64_t>{32 * 192, 4096});
  CHECK(whole.family->source(whole.spec, query).candidates.front().name == "model.layers.1.self_attn.q_proj.weight");
}

TEST_CASE("family tensors: layers of multi-token prediction are passed over, one where the config counts none") {
  for (const std::string family : {"deepseek_v3", "glm4_moe", "glm4_moe_lite"}) {
    CASE(family);
    const auto with = [&](size_t layer, const std::string& fields) {
      const std::string config = tiny_family_config(family, fields);
      Tensors tensors = tiny_tensors(config);
      for (const char* name : {".eh_proj.weight", ".mlp.experts.7.up_proj.weight"}) {
        tensors.push_back(zeros("model.layers." + std::to_string(layer) + name, {8, 16}));
      }
      open_checkpoint(config, tensors);
    };
    const std::string one = R"("num_nextn_predict_layers":1)";
    CHECK_NOTHROW(with(2, one));
    CHECK_NOTHROW(with(3, R"("num_nextn_predict_layers":2)"));
    check_error([&] { with(3, one); }, {"model.layers.3.", "not of the model", "2 decoder layers"});
    check_error([&] { with(2, R"("num_nextn_predict_layers":0)"); }, {"model.layers.2.", "not of the model"});
    CHECK_NOTHROW(with(2, ""));
    CHECK_NOTHROW(with(3, R"("num_mtp_layers":2)"));
    check_error([&] { with(3, ""); }, {"model.layers.3.", "not of the model"});
    check_error([&] { with(1, one); }, {"model.layers.1.", "not of the model"});
  }
}

/// The value of a code of 4 bits, e2m1.
double e2m1(unsigned code) {
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) == 0 ? values[code & 7] : -values[code & 7];
}

TEST_CASE("family tensors: gpt-oss's gates are the even rows of its codes, its ups the odd ones") {
  const std::string config = tiny_family_config("gpt_oss"), experts = "model.layers.1.mlp.experts.";
  Tensors tensors = tiny_tensors(config);
  for (const char* name : {"gate_up_proj", "down_proj"}) {
    std::string& codes = tensor_named(tensors, experts + name + "_blocks").data;
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i * 37 + i / 16 + 11);
    std::string& scales = tensor_named(tensors, experts + name + "_scales").data;
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<char>(110 + i % 29);
    count_up(tensor_named(tensors, experts + name + "_bias"));
  }
  const Checkpoint checkpoint = open_checkpoint(config, tensors);
  const auto expected = [&](const std::string& name, size_t first, size_t step) {
    const std::string& codes = tensor_named(tensors, experts + name + "_blocks").data;
    const std::string& scales = tensor_named(tensors, experts + name + "_scales").data;
    std::vector<float> values;
    for (const auto& [row, column] : grid(first_numbers(32), first_numbers(32))) {
      const size_t at = first + row * step;
      const auto byte = static_cast<uint8_t>(codes[at * 16 + column / 2]);
      const double value = e2m1(column % 2 == 0 ? byte & 15 : byte >> 4);
      values.push_back(static_cast<float>(std::ldexp(value, static_cast<uint8_t>(scales[at]) - 127)));
    }
    return values;
  };
  const auto every = [](size_t first, size_t step) {
    return matrix(32, 1, [=](size_t i, size_t) { return first + i * step; });
  };
  for (size_t e = 0; e < 3; ++e) {
    CHECK(read(checkpoint, TensorRole::kExpertGate, e) == expected("gate_up_proj", e * 64, 2));
    CHECK(read(checkpoint, TensorRole::kExpertUp, e) == expected("gate_up_proj", e * 64 + 1, 2));
    CHECK(read(checkpoint, TensorRole::kExpertDown, e) == expected("down_proj", e * 32, 1));
    CHECK(read(checkpoint, TensorRole::kExpertGateBias, e) == every(e * 64, 2));
    CHECK(read(checkpoint, TensorRole::kExpertUpBias, e) == every(e * 64 + 1, 2));
    CHECK(read(checkpoint, TensorRole::kExpertDownBias, e) == every(e * 32, 1));
  }
  CHECK(lossless_formats(checkpoint).all_experts == kMxfp4Format);
  CHECK(lossless_formats(checkpoint).all_dense == kF32Format);
}

TEST_CASE("family tensors: gpt-oss's experts are also read from transposed tensors that are not quantized") {
  const std::string config = tiny_family_config("gpt_oss");
  Tensors tensors = tiny_tensors(config, true);
  for (const char* name : {"gate_up_proj", "down_proj"}) {
    count_up(tensor_named(tensors, std::string("model.layers.1.mlp.experts.") + name));
  }
  const Checkpoint checkpoint = open_checkpoint(config, tensors);
  for (size_t e = 0; e < 3; ++e) {
    const auto columns = [&](size_t width, size_t first, size_t step) {
      return matrix(32, 32, [=](size_t i, size_t j) { return (e * 32 + j) * width + first + i * step; });
    };
    CHECK(read(checkpoint, TensorRole::kExpertGate, e) == columns(64, 0, 2));
    CHECK(read(checkpoint, TensorRole::kExpertUp, e) == columns(64, 1, 2));
    CHECK(read(checkpoint, TensorRole::kExpertDown, e) == columns(32, 0, 1));
  }
  CHECK(lossless_formats(checkpoint).all_experts == kF32Format);
}

TEST_CASE("family tensors: a tensor without elements is no weight") {
  const std::string config = tiny_family_config("glm4_moe", R"("n_shared_experts":0)");
  Tensors tensors = tiny_tensors(config);
  tensors.push_back(zeros("model.layers.1.mlp.shared_experts.up_proj.weight", {0, 8}));
  CHECK_NOTHROW(open_checkpoint(config, tensors));
}

TEST_CASE("family tensors: MXFP4 has every power of two, and a scale that is no number is refused by name") {
  const std::string config = tiny_family_config("gpt_oss");
  for (const auto& [name, experts] : grid(std::vector<std::string>{"gate_up_proj_scales", "down_proj_scales"},
                                          std::vector{kF32Format, kMxfp4Format})) {
    const auto pack = [&](uint8_t scale) {
      Tensors tensors = tiny_tensors(config);
      tensor_named(tensors, "model.layers.1.mlp.experts." + name).data.back() = static_cast<char>(scale);
      const CheckpointDirectory model(config);
      model.write_tensors(tensors);
      const TempDir directory;
      write_pack(model.path(), directory.path(), experts);
    };
    check_error([&] { pack(255); }, {name, "a scale of MXFP4", "a number from 0 to 254", "found 255"});
    for (const uint8_t scale : {0, 1, 2, 254}) CHECK_NOTHROW(pack(scale));
  }
}

TEST_CASE("family tensors: codes and scales of MXFP4 of another type or shape are refused by name") {
  const std::string config = tiny_family_config("gpt_oss");
  const auto check_changed = [&](const std::string& name, const std::function<void(BuiltTensor&)>& change,
                                 std::vector<std::string> parts) {
    Tensors tensors = tiny_tensors(config);
    change(tensor_named(tensors, "model.layers.0.mlp.experts." + name));
    parts.push_back(name);
    check_error([&] { open_checkpoint(config, tensors); }, parts);
  };
  for (const char* name : {"gate_up_proj_blocks", "gate_up_proj_scales", "down_proj_blocks", "down_proj_scales"}) {
    check_changed(name, [](BuiltTensor& tensor) { tensor.dtype = "I8"; }, {"dtype", "U8, codes of MXFP4", "I8"});
    check_changed(name, [](BuiltTensor& tensor) { tensor = zeros(tensor.name, tensor.shape); },
                  {"dtype", "U8, codes of MXFP4", "F32"});
    check_changed(name,
                  [](BuiltTensor& tensor) {
                    tensor.shape[0] = 2;
                    tensor.data.resize(tensor.data.size() / 3 * 2);
                  },
                  {"shape", "[3, ", "[2, "});
  }
  check_changed("down_proj_bias", [](BuiltTensor& tensor) { tensor.dtype = "I32"; }, {"F32, BF16 or F16", "I32"});
}

}  // namespace
