// FP8 checkpoints: numbers and scales as torch reads them, packs equal to those of the dequantized checkpoint, damage.
#include "checkpoint/pack_formats.h"
#include "checkpoint/slot_reader.h"
#include "support/checkpoint_forms.h"
#include "support/family_config.h"
#include "support/oracle_cases.h"

namespace {

constexpr Fp8Block kUsual{}, kOdd{3, 5};

/// Models whose widths are above 128 and no multiples of it.
const std::string kWideQwen =
    R"({"model_type":"qwen3_moe","vocab_size":10,"hidden_size":200,"num_hidden_layers":1,"num_attention_heads":3,)"
    R"("num_key_value_heads":1,"head_dim":50,"num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":136,)"
    R"("max_position_embeddings":64,"eos_token_id":2)";
const std::string kWideDeepseek =
    R"({"model_type":"deepseek_v3","vocab_size":10,"hidden_size":200,"num_hidden_layers":2,"num_attention_heads":3,)"
    R"("num_key_value_heads":3,"n_routed_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":136,)"
    R"("intermediate_size":300,"first_k_dense_replace":1,"n_group":1,"topk_group":1,"q_lora_rank":72,)"
    R"("kv_lora_rank":140,"qk_nope_head_dim":24,"qk_rope_head_dim":10,"v_head_dim":44,)"
    R"("max_position_embeddings":64,"eos_token_id":2)";

Tensors random_tensors(const std::string& config, bool fused = false) {
  Tensors tensors = tiny_tensors(config, fused);
  fill_randomly(tensors, 9);
  return tensors;
}

TEST_CASE("fp8: codes and scaled blocks have the values that torch gives them") {
  const Cases torch(repo() + "/test/fixtures/fp8");
  const auto numbers = torch.read<float>("numbers");
  for (size_t code = 0; code < 256; ++code) {
    CASE(code);
    const float own = f8_e4m3_to_f32(static_cast<uint8_t>(code));
    CHECK((std::isnan(own) ? std::isnan(numbers[code]) : std::memcmp(&own, &numbers[code], sizeof own) == 0));
  }
  for (const std::string name : {"f32", "bf16", "fused"}) {
    CASE(name);
    const auto shape = torch.shape(name + ".weight"), grid = torch.shape(name + ".weight_scale_inv");
    const auto codes = torch.read<char>(name + ".weight");
    const std::string dtype = name == "bf16" ? "BF16" : "F32";
    const std::string scales = name == "bf16" ? bytes_of(torch.read<uint16_t>(name + ".weight_scale_inv"))
                                              : bytes_of(torch.read<float>(name + ".weight_scale_inv"));
    const CheckpointDirectory model(tiny_family_config("olmoe", fp8_field({24, 40})));
    model.write_tensors({{"m", "F8_E4M3", shape, {codes.begin(), codes.end()}}, {"m_scale_inv", dtype, grid, scales}});
    const Checkpoint checkpoint = model.open();
    SlotData data{checkpoint.find("m"), 0};
    data.block_scales = checkpoint.block_scales_of(*data.tensor);
    data.block = {24, 40};
    const auto expected = torch.read<float>(name + ".values");
    const uint64_t k = shape.back(), n = expected.size() / k;
    for (const uint64_t rows : {uint64_t{1}, uint64_t{7}, n}) {
      std::vector<float> all, some;
      for (uint64_t row = 0; row < n; row += rows) {
        read_rows(checkpoint, data, row, std::min(rows, n - row), k, kF32Format, some);
        all.insert(all.end(), some.begin(), some.end());
      }
      CHECK(same_bits(all, expected));
    }
  }
}

TEST_CASE("fp8: packs are those of the dequantized checkpoint, in every type") {
  struct Row {
    std::string config;
    Fp8Block block;
    std::string scales = "F32";
    bool fused = false;
  };
  std::vector<Row> rows{{kWideQwen, kUsual},
                        {kWideQwen, kUsual, "BF16", true},
                        {kWideDeepseek, kUsual},
                        {kWideDeepseek, {64, 100}, "BF16", true}};
  for (const char* family : kFamilies) {
    const std::string config = tiny_family_config(family), fields = config.substr(0, config.size() - 1);
    rows.push_back({fields, kOdd, "F32", false});
    rows.push_back({fields, kOdd, "F32", true});
    rows.push_back({fields, kUsual, "BF16", false});
  }
  for (const Row& row : rows) {
    CASE(row.config, row.block.rows, row.fused);
    const std::string plain = row.config + "}", fp8 = row.config + "," + fp8_field(row.block) + "}";
    const Fp8Forms forms = fp8_forms(random_tensors(plain, row.fused), row.block, row.scales);
    REQUIRE(forms.fp8.size() > forms.plain.size());
    for (const WeightFormat format : {kF32Format, kBf16Format, kInt8Format, int4_format(64)}) {
      CHECK(packed_bytes(fp8, forms.fp8, format) == packed_bytes(plain, forms.plain, format));
    }
  }
}

TEST_CASE("fp8: bf16 loses nothing where all scales are powers of two, else f32 does") {
  const std::string config = tiny_family_config("qwen3_moe", fp8_field(kOdd));
  Tensors tensors = random_tensors(config);
  for (BuiltTensor& tensor : tensors) {
    // What is not FP8 is bf16 in such checkpoints.
    if (tensor.name.find("_proj") == std::string::npos) narrow(tensor, "BF16");
  }
  const auto formats = [&](const Tensors& all) {
    const CheckpointDirectory model(config);
    model.write_tensors(all);
    return lossless_formats(model.open());
  };
  Tensors powers = fp8_forms(tensors, kOdd, "F32", true).fp8;
  CHECK(formats(powers).all_experts == kBf16Format);
  CHECK(formats(powers).all_dense == kBf16Format);
  const auto set_scale = [&](const std::string& name, float scale) {
    Tensors changed = powers;
    std::memcpy(tensor_named(changed, name).data.data(), &scale, sizeof scale);
    return formats(changed);
  };
  const std::string expert = "model.layers.1.mlp.experts.2.up_proj.weight_scale_inv";
  const std::string query = "model.layers.0.self_attn.q_proj.weight_scale_inv";
  CHECK(set_scale(expert, 0.75f).all_experts == kF32Format);
  CHECK(set_scale(expert, 0.75f).all_dense == kBf16Format);
  CHECK(set_scale(query, 1.25f).all_experts == kBf16Format);
  CHECK(set_scale(query, 1.25f).all_dense == kF32Format);
  // The smallest number is 2^-9 of it.
  CHECK(set_scale(expert, 0x1p-117f).all_experts == kBf16Format);
  CHECK(set_scale(expert, 0x1p-118f).all_experts == kF32Format);
  CHECK(formats(fp8_forms(tensors, kOdd).fp8).all_experts == kF32Format);
}

/// A tiny FP8 checkpoint after `change`, packed.
void pack_changed(const std::function<void(Tensors&)>& change, WeightFormat format = kF32Format) {
  const std::string config = tiny_family_config("qwen3_moe", fp8_field(kOdd));
  Tensors tensors = fp8_forms(random_tensors(config), kOdd).fp8;
  change(tensors);
  packed_bytes(config, tensors, format);
}

TEST_CASE("fp8: scales that are missing, misshapen or unsound are refused by name") {
  for (const std::string weight :
       {"model.layers.1.mlp.experts.2.up_proj.weight", "model.layers.0.self_attn.q_proj.weight"}) {
    CASE(weight);
    const std::string scales = weight + "_scale_inv";
    const auto check_changed = [&](const std::function<void(Tensors&)>& change, const std::vector<std::string>& parts) {
      check_error([&] { pack_changed(change); }, parts);
    };
    check_changed([&](Tensors& all) { all = without(all, scales); }, {scales, "missing tensor"});
    check_changed(
        [&](Tensors& all) {
          BuiltTensor& tensor = tensor_named(all, scales);
          tensor.shape = {tensor.shape[0] * tensor.shape[1]};
        },
        {scales, "shape", ", 2]"});
    check_changed([&](Tensors& all) { tensor_named(all, scales).dtype = "I32"; }, {scales, "dtype", "I32"});
    for (const auto& [scale, found] : {std::pair{0.0f, "found"},
                                       {-0.0f, "found"},
                                       {-1.5f, "found -1.5"},
                                       {INFINITY, "found inf"},
                                       {-INFINITY, "found"},
                                       {NAN, "found"},
                                       {1e36f, "found"}}) {
      check_changed([&](Tensors& all) { std::memcpy(tensor_named(all, scales).data.data() + 4, &scale, sizeof scale); },
                    {scales, "scale of an FP8 block, row 0, column 1", "a positive number up to", found});
    }
    check_changed([&](Tensors& all) { tensor_named(all, weight) = zeros(weight, tensor_named(all, weight).shape); },
                  {scales, "scales of numbers that have none", weight, "F32"});
    check_changed([&](Tensors& all) { tensor_named(all, weight).dtype = "F8_E5M2"; }, {weight, "dtype", "F8_E5M2"});
  }
}

TEST_CASE("fp8: NaN is kept where the pack can hold it, else refused by tensor, row and column") {
  const std::string name = "model.layers.1.mlp.experts.2.up_proj.weight";
  for (const int code : {0x7f, 0xff}) {
    CASE(code);
    const auto damage = [&](Tensors& all) { tensor_named(all, name).data[8 + 3] = static_cast<char>(code); };
    check_error([&] { pack_changed(damage, kInt8Format); }, {name, "row 1, column 3", "a finite number", "NaN"});
    CHECK_NOTHROW(pack_changed(damage));
  }
}

TEST_CASE("fp8: numbers are refused where the config does not say how to read them") {
  const std::string plain = tiny_family_config("qwen3_moe");
  Tensors tensors = fp8_forms(random_tensors(plain), kOdd).fp8;
  check_error([&] { packed_bytes(plain, tensors); }, {"_proj.weight", "dtype", "F8_E4M3", "quantization_config"});
  // Vectors are never FP8.
  BuiltTensor& norm = tensor_named(tensors, "model.norm.weight");
  norm.dtype = "F8_E4M3";
  norm.data.resize(norm.data.size() / 4);
  check_error([&] { packed_bytes(tiny_family_config("qwen3_moe", fp8_field(kOdd)), tensors); },
              {"model.norm.weight", "dtype", "F8_E4M3"});
}

TEST_CASE("fp8: what a config asks for and that is not built is refused by the name of its field") {
  const auto with = [](const std::string& fields) { return R"("quantization_config":{)" + fields + "}"; };
  const std::string fp8 = R"("quant_method":"fp8")";
  for (const std::string sound :
       {R"("weight_block_size":[128,128])", R"("weight_block_size":[1,7])", R"("modules_to_not_convert":["lm_head"])",
        R"("ignored_layers":null)", R"("scale_fmt":"ue8m0")", R"("fmt":"e4m3","activation_scheme":"dynamic")"}) {
    CASE(sound);
    CHECK_NOTHROW(parse_family("qwen3_moe", R"("num_experts_per_tok":2,)" + with(fp8 + "," + sound)));
  }
  const std::string name = "\"quantization_config.";
  check_refused("qwen3_moe",
                {{with(R"("quant_method":"gptq")"), {name + "quant_method\"", "\"mxfp4\" or \"fp8\"", "gptq"}},
                 {with(R"("quant_method":"compressed-tensors")"), {name + "quant_method\"", "compressed-tensors"}},
                 {with(fp8 + R"(,"fmt":"e5m2")"), {name + "fmt\"", "\"e4m3\"", "e5m2"}},
                 {with(fp8 + R"(,"activation_scheme":"static")"), {name + "activation_scheme\"", "static"}},
                 {with(fp8 + R"(,"scale_fmt":"other")"), {name + "scale_fmt\"", "other"}},
                 {with(fp8 + R"(,"weight_block_size":null)"), {name + "weight_block_size\"", "null"}},
                 {with(fp8 + R"(,"weight_block_size":[128])"), {name + "weight_block_size\"", "1 numbers"}},
                 {with(fp8 + R"(,"weight_block_size":[128,0])"), {name + "weight_block_size\"", "from 1", "found 0"}},
                 {with(fp8 + R"(,"weight_block_size":[1,2,3])"), {name + "weight_block_size\""}},
                 {with(fp8 + R"(,"weight_block_size":128)"), {name + "weight_block_size\""}},
                 {R"("quantization_config":7)", {"\"quantization_config\"", "an object"}}});
}

}  // namespace
