// Where the checkpoints of each family hold their tensors: names, shapes, and the numbers of each slot.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/pack_formats.h"
#include "checkpoint/slot_reader.h"
#include "doctest/doctest.h"
#include "support/checkpoint_directory.h"
#include "support/error_checks.h"
#include "support/test_pack.h"

namespace {

using namespace sida;
using namespace sida::testing;

using Tensors = std::vector<BuiltTensor>;

const char* const kFamilies[] = {"mixtral",     "qwen2_moe",   "qwen3_moe", "gpt_oss",
                                 "deepseek_v2", "deepseek_v3", "glm4_moe"};

BuiltTensor& tensor_named(Tensors& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const BuiltTensor& tensor) { return tensor.name == name; });
  REQUIRE_MESSAGE(found != tensors.end(), name);
  return *found;
}

/// Element i becomes `from` + i.
void count_up(BuiltTensor& tensor, float from = 0) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<float>(i);
  tensor.data = bytes_of(values);
}

void check(const std::string& config, const Tensors& tensors) {
  const CheckpointDirectory model(config);
  model.write_tensors(tensors);
  model.open().check_tensors();
}

TensorSlot slot_of(const ModelSpec& spec, TensorRole role, size_t layer, size_t expert = 0) {
  std::vector<TensorSlot> found;
  for_each_slot(spec, [&](const TensorSlot& slot) {
    if (slot.role == role && slot.layer == layer && slot.expert == expert) found.push_back(slot);
  });
  REQUIRE(found.size() == 1);
  return found[0];
}

/// All numbers of a slot, read two rows at a time.
std::vector<float> values_of(const Checkpoint& checkpoint, const TensorSlot& slot) {
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
    CAPTURE(family);
    const std::string config = tiny_family_config(family);
    const Tensors all = tiny_tensors(config);
    CHECK_NOTHROW(check(config, all));
    for (const BuiltTensor& left_out : all) {
      CAPTURE(left_out.name);
      Tensors tensors = all;
      std::erase_if(tensors, [&](const BuiltTensor& tensor) { return tensor.name == left_out.name; });
      check_has(error_of([&] { check(config, tensors); }), {"tensor \"" + left_out.name + "\"", "missing tensor"});
    }
  }
}

TEST_CASE("family tensors: names and shapes are those of the hub") {
  struct Row {
    std::string family, name;
    std::vector<uint64_t> shape;
  };
  const Row rows[] = {
      {"mixtral", "block_sparse_moe.gate.weight", {3, 8}},
      {"mixtral", "block_sparse_moe.experts.2.w1.weight", {6, 8}},
      {"mixtral", "block_sparse_moe.experts.2.w2.weight", {8, 6}},
      {"mixtral", "self_attn.q_proj.weight", {16, 8}},
      {"mixtral", "self_attn.o_proj.weight", {8, 16}},
      {"qwen2_moe", "mlp.gate.weight", {3, 8}},
      {"qwen2_moe", "mlp.shared_expert.gate_proj.weight", {10, 8}},
      {"qwen2_moe", "mlp.shared_expert.down_proj.weight", {8, 10}},
      {"qwen2_moe", "mlp.shared_expert_gate.weight", {1, 8}},
      {"qwen2_moe", "self_attn.k_proj.bias", {4}},
      {"qwen2_moe", "mlp.experts.1.up_proj.weight", {6, 8}},
      {"qwen3_moe", "self_attn.q_norm.weight", {8}},
      {"qwen3_moe", "self_attn.v_proj.weight", {8, 8}},
      {"qwen3_moe", "mlp.experts.1.down_proj.weight", {8, 6}},
      {"gpt_oss", "self_attn.sinks", {2}},
      {"gpt_oss", "self_attn.o_proj.bias", {32}},
      {"gpt_oss", "mlp.router.weight", {3, 32}},
      {"gpt_oss", "mlp.router.bias", {3}},
      {"gpt_oss", "mlp.experts.gate_up_proj_blocks", {3, 64, 1, 16}},
      {"gpt_oss", "mlp.experts.gate_up_proj_scales", {3, 64, 1}},
      {"gpt_oss", "mlp.experts.gate_up_proj_bias", {3, 64}},
      {"gpt_oss", "mlp.experts.down_proj_blocks", {3, 32, 1, 16}},
      {"gpt_oss", "mlp.experts.down_proj_bias", {3, 32}},
      {"deepseek_v2", "self_attn.q_a_proj.weight", {3, 8}},
      {"deepseek_v2", "self_attn.q_a_layernorm.weight", {3}},
      {"deepseek_v2", "self_attn.q_b_proj.weight", {12, 3}},
      {"deepseek_v2", "self_attn.kv_a_proj_with_mqa.weight", {7, 8}},
      {"deepseek_v2", "self_attn.kv_a_layernorm.weight", {5}},
      {"deepseek_v2", "self_attn.kv_b_proj.weight", {20, 5}},
      {"deepseek_v2", "self_attn.o_proj.weight", {8, 12}},
      {"deepseek_v2", "mlp.shared_experts.up_proj.weight", {12, 8}},
      {"deepseek_v3", "mlp.shared_experts.up_proj.weight", {6, 8}},
      {"deepseek_v3", "mlp.gate.e_score_correction_bias", {3}},
      {"glm4_moe", "mlp.gate.e_score_correction_bias", {3}},
      {"glm4_moe", "mlp.shared_experts.down_proj.weight", {8, 6}},
      {"glm4_moe", "mlp.experts.0.gate_proj.weight", {6, 8}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.family);
    CAPTURE(row.name);
    Tensors tensors = tiny_tensors(tiny_family_config(row.family));
    CHECK(tensor_named(tensors, "model.layers.1." + row.name).shape == row.shape);
  }
  for (const std::string family : {"deepseek_v2", "deepseek_v3", "glm4_moe"}) {
    CAPTURE(family);
    Tensors tensors = tiny_tensors(tiny_family_config(family));
    CHECK(tensor_named(tensors, "model.layers.0.mlp.gate_proj.weight").shape == std::vector<uint64_t>{12, 8});
  }
}

TEST_CASE("family tensors: experts are also read from tensors that hold all of a layer's") {
  for (const std::string family : kFamilies) {
    if (family == "gpt_oss") continue;
    CAPTURE(family);
    const std::string config = tiny_family_config(family);
    Tensors fused = tiny_tensors(config, true);
    BuiltTensor& both = tensor_named(fused, "model.layers.1.mlp.experts.gate_up_proj");
    CHECK(both.shape == std::vector<uint64_t>{3, 12, 8});
    count_up(both);
    BuiltTensor& down = tensor_named(fused, "model.layers.1.mlp.experts.down_proj");
    CHECK(down.shape == std::vector<uint64_t>{3, 8, 6});
    count_up(down);
    const CheckpointDirectory model(config);
    model.write_tensors(fused);
    const Checkpoint checkpoint = model.open();
    CHECK_NOTHROW(checkpoint.check_tensors());
    for (size_t e = 0; e < 3; ++e) {
      const auto read = [&](TensorRole role) { return values_of(checkpoint, slot_of(checkpoint.spec(), role, 1, e)); };
      CHECK(read(TensorRole::kExpertGate) == matrix(6, 8, [&](size_t i, size_t j) { return (e * 12 + i) * 8 + j; }));
      CHECK(read(TensorRole::kExpertUp) == matrix(6, 8, [&](size_t i, size_t j) { return (e * 12 + 6 + i) * 8 + j; }));
      CHECK(read(TensorRole::kExpertDown) == matrix(8, 6, [&](size_t i, size_t j) { return (e * 8 + i) * 6 + j; }));
    }
  }
}

TEST_CASE("family tensors: a mixtral checkpoint may have the newer name of its block") {
  const std::string config = tiny_family_config("mixtral");
  Tensors tensors = tiny_tensors(config);
  for (BuiltTensor& tensor : tensors) {
    const size_t at = tensor.name.find("block_sparse_moe.");
    if (at != std::string::npos) tensor.name.replace(at, 17, "mlp.");
  }
  CHECK_NOTHROW(check(config, tensors));
}

TEST_CASE("family tensors: latent attention takes its slots from parts of two matrices") {
  for (const std::string family : {"deepseek_v2", "deepseek_v3"}) {
    CAPTURE(family);
    const std::string config = tiny_family_config(family);
    Tensors tensors = tiny_tensors(config);
    count_up(tensor_named(tensors, "model.layers.1.self_attn.kv_a_proj_with_mqa.weight"));
    count_up(tensor_named(tensors, "model.layers.1.self_attn.kv_b_proj.weight"));
    const CheckpointDirectory model(config);
    model.write_tensors(tensors);
    const Checkpoint checkpoint = model.open();
    const auto read = [&](TensorRole role, size_t head = 0) {
      return values_of(checkpoint, slot_of(checkpoint.spec(), role, 1, head));
    };
    CHECK(read(TensorRole::kLatent) == matrix(5, 8, [](size_t i, size_t j) { return i * 8 + j; }));
    CHECK(read(TensorRole::kLatentRotary) == matrix(2, 8, [](size_t i, size_t j) { return (5 + i) * 8 + j; }));
    // A head has 4 rows for keys, whose slot is transposed, and 6 for values.
    for (size_t head = 0; head < 2; ++head) {
      CHECK(read(TensorRole::kLatentKey, head) ==
            matrix(5, 4, [&](size_t i, size_t j) { return (head * 10 + j) * 5 + i; }));
      CHECK(read(TensorRole::kLatentValue, head) ==
            matrix(6, 5, [&](size_t i, size_t j) { return (head * 10 + 4 + i) * 5 + j; }));
    }
  }
  const std::string biased = tiny_family_config("deepseek_v3", R"("attention_bias":true)");
  Tensors tensors = tiny_tensors(biased);
  CHECK(tensor_named(tensors, "model.layers.1.self_attn.q_a_proj.bias").shape == std::vector<uint64_t>{3});
  CHECK(tensor_named(tensors, "model.layers.1.self_attn.o_proj.bias").shape == std::vector<uint64_t>{8});
  count_up(tensor_named(tensors, "model.layers.1.self_attn.kv_a_proj_with_mqa.bias"));
  const CheckpointDirectory model(biased);
  model.write_tensors(tensors);
  const Checkpoint checkpoint = model.open();
  const auto bias = [&](TensorRole role) { return values_of(checkpoint, slot_of(checkpoint.spec(), role, 1)); };
  CHECK(bias(TensorRole::kLatentBias) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(bias(TensorRole::kLatentRotaryBias) == std::vector<float>{5, 6});
  const std::string config = R"({"model_type":"deepseek_v2","num_experts_per_tok":2,"q_lora_rank":null})";
  const ModelConfig whole = parse_model_config(config, "config.json");
  const TensorSlot query = slot_of(whole.spec, TensorRole::kQuery, 1);
  CHECK(query.shape == std::vector<uint64_t>{32 * 192, 4096});
  CHECK(whole.family->source(whole.spec, query).candidates.front().name == "model.layers.1.self_attn.q_proj.weight");
}

TEST_CASE("family tensors: layers of multi-token prediction are passed over, one where the config counts none") {
  for (const std::string family : {"deepseek_v3", "glm4_moe"}) {
    CAPTURE(family);
    const auto with = [&](size_t layer, const std::string& fields) {
      const std::string config = tiny_family_config(family, fields);
      Tensors tensors = tiny_tensors(config);
      for (const char* name : {".eh_proj.weight", ".mlp.experts.7.up_proj.weight"}) {
        tensors.push_back(zeros("model.layers." + std::to_string(layer) + name, {8, 16}));
      }
      check(config, tensors);
    };
    const std::string one = R"("num_nextn_predict_layers":1)";
    CHECK_NOTHROW(with(2, one));
    CHECK_NOTHROW(with(3, R"("num_nextn_predict_layers":2)"));
    check_has(error_of([&] { with(3, one); }), {"model.layers.3.", "not of the model", "2 decoder layers"});
    check_has(error_of([&] { with(2, R"("num_nextn_predict_layers":0)"); }), {"model.layers.2.", "not of the model"});
    CHECK_NOTHROW(with(2, ""));
    CHECK_NOTHROW(with(3, R"("num_mtp_layers":2)"));
    check_has(error_of([&] { with(3, ""); }), {"model.layers.3.", "not of the model"});
    check_has(error_of([&] { with(1, one); }), {"model.layers.1.", "not of the model"});
  }
}

/// The value of a code of 4 bits, e2m1.
double e2m1(unsigned code) {
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) == 0 ? values[code & 7] : -values[code & 7];
}

TEST_CASE("family tensors: gpt-oss's gates are the even rows of its codes, its ups the odd ones") {
  const std::string config = tiny_family_config("gpt_oss");
  Tensors tensors = tiny_tensors(config);
  const std::string experts = "model.layers.1.mlp.experts.";
  for (const char* name : {"gate_up_proj", "down_proj"}) {
    std::string& codes = tensor_named(tensors, experts + name + "_blocks").data;
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i * 37 + i / 16 + 11);
    std::string& scales = tensor_named(tensors, experts + name + "_scales").data;
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<char>(110 + i % 29);
    count_up(tensor_named(tensors, experts + name + "_bias"));
  }
  const CheckpointDirectory model(config);
  model.write_tensors(tensors);
  const Checkpoint checkpoint = model.open();
  const auto expected = [&](const std::string& name, size_t first, size_t step) {
    const std::string& codes = tensor_named(tensors, experts + name + "_blocks").data;
    const std::string& scales = tensor_named(tensors, experts + name + "_scales").data;
    std::vector<float> values;
    for (size_t row = 0; row < 32; ++row) {
      for (size_t column = 0; column < 32; ++column) {
        const size_t at = first + row * step;
        const auto byte = static_cast<uint8_t>(codes[at * 16 + column / 2]);
        const double value = e2m1(column % 2 == 0 ? byte & 15 : byte >> 4);
        values.push_back(static_cast<float>(std::ldexp(value, static_cast<uint8_t>(scales[at]) - 127)));
      }
    }
    return values;
  };
  const auto every = [](size_t first, size_t step) {
    return matrix(32, 1, [=](size_t i, size_t) { return first + i * step; });
  };
  for (size_t e = 0; e < 3; ++e) {
    const auto read = [&](TensorRole role) { return values_of(checkpoint, slot_of(checkpoint.spec(), role, 1, e)); };
    CHECK(read(TensorRole::kExpertGate) == expected("gate_up_proj", e * 64, 2));
    CHECK(read(TensorRole::kExpertUp) == expected("gate_up_proj", e * 64 + 1, 2));
    CHECK(read(TensorRole::kExpertDown) == expected("down_proj", e * 32, 1));
    CHECK(read(TensorRole::kExpertGateBias) == every(e * 64, 2));
    CHECK(read(TensorRole::kExpertUpBias) == every(e * 64 + 1, 2));
    CHECK(read(TensorRole::kExpertDownBias) == every(e * 32, 1));
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
  const CheckpointDirectory model(config);
  model.write_tensors(tensors);
  const Checkpoint checkpoint = model.open();
  CHECK_NOTHROW(checkpoint.check_tensors());
  for (size_t e = 0; e < 3; ++e) {
    const auto read = [&](TensorRole role) { return values_of(checkpoint, slot_of(checkpoint.spec(), role, 1, e)); };
    const auto columns = [&](size_t width, size_t first, size_t step) {
      return matrix(32, 32, [=](size_t i, size_t j) { return (e * 32 + j) * width + first + i * step; });
    };
    CHECK(read(TensorRole::kExpertGate) == columns(64, 0, 2));
    CHECK(read(TensorRole::kExpertUp) == columns(64, 1, 2));
    CHECK(read(TensorRole::kExpertDown) == columns(32, 0, 1));
  }
  CHECK(lossless_formats(checkpoint).all_experts == kF32Format);
}

TEST_CASE("family tensors: a tensor without elements is no weight") {
  const std::string config = tiny_family_config("glm4_moe", R"("n_shared_experts":0)");
  Tensors tensors = tiny_tensors(config);
  tensors.push_back(zeros("model.layers.1.mlp.shared_experts.up_proj.weight", {0, 8}));
  CHECK_NOTHROW(check(config, tensors));
}

TEST_CASE("family tensors: MXFP4 has every power of two, and a scale that is no number is refused by name") {
  const std::string config = tiny_family_config("gpt_oss");
  for (const char* name : {"gate_up_proj_scales", "down_proj_scales"}) {
    const auto pack = [&](uint8_t scale, WeightFormat experts) {
      Tensors tensors = tiny_tensors(config);
      tensor_named(tensors, std::string("model.layers.1.mlp.experts.") + name).data.back() = static_cast<char>(scale);
      const CheckpointDirectory model(config);
      model.write_tensors(tensors);
      const TempDir directory;
      write_pack(model.path(), directory.path(), experts);
    };
    for (const WeightFormat experts : {kF32Format, kMxfp4Format}) {
      check_has(error_of([&] { pack(255, experts); }),
                {name, "a scale of MXFP4", "a number from 0 to 254", "found 255"});
      for (const uint8_t scale : {0, 1, 2, 254}) CHECK_NOTHROW(pack(scale, experts));
    }
  }
}

TEST_CASE("family tensors: codes and scales of MXFP4 of another type or shape are refused by name") {
  const std::string config = tiny_family_config("gpt_oss");
  const char* const names[] = {"gate_up_proj_blocks", "gate_up_proj_scales", "down_proj_blocks", "down_proj_scales"};
  for (const std::string name : names) {
    CAPTURE(name);
    const auto changed = [&](const std::function<void(BuiltTensor&)>& change) {
      Tensors tensors = tiny_tensors(config);
      change(tensor_named(tensors, "model.layers.0.mlp.experts." + name));
      return error_of([&] { check(config, tensors); });
    };
    check_has(changed([](BuiltTensor& tensor) { tensor.dtype = "I8"; }), {name, "dtype", "U8, codes of MXFP4", "I8"});
    check_has(changed([](BuiltTensor& tensor) { tensor = zeros(tensor.name, tensor.shape); }),
              {name, "dtype", "U8, codes of MXFP4", "F32"});
    check_has(changed([](BuiltTensor& tensor) {
                tensor.shape[0] = 2;
                tensor.data.resize(tensor.data.size() / 3 * 2);
              }),
              {name, "shape", "[3, ", "[2, "});
  }
  Tensors tensors = tiny_tensors(config);
  BuiltTensor& bias = tensor_named(tensors, "model.layers.0.mlp.experts.down_proj_bias");
  bias.dtype = "I32";
  check_has(error_of([&] { check(config, tensors); }), {"down_proj_bias", "F32, BF16 or F16", "I32"});
}

}  // namespace
