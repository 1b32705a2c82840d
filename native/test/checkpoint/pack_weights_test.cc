// The weights of packs: what a writer writes and refuses to quantize, and the checks that find damage.
#include "checkpoint/finite_weights.h"
#include "checkpoint/pack_verifier.h"
#include "checkpoint/pack_writer.h"
#include "support/checkpoint_directory.h"
#include "support/pack_files.h"
#include "weights/panel_layout.h"

namespace {

TEST_CASE("pack writer: writes nothing once it is closed") {
  const TempDir dir;
  PackWriter writer(small_checkpoint(), dir.path(), kInt8Format, kF32Format);
  writer.close();
  const size_t experts = writer.pack().experts.experts();
  error_of([&] { writer.write_experts(0, 1); }, "internal");
  // Only the seals are left to write.
  error_of([&] { writer.write_experts(experts, experts); }, "internal");
}

TEST_CASE("pack writer: a weight that is no finite number cannot be quantized, and the tensor is named") {
  const TempDir copy;
  std::filesystem::copy(small_checkpoint(), copy.path(),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const std::string name = "encoder.block.1.layer.1.mlp.experts.expert_2.wi.weight";
  const Checkpoint source = Checkpoint::open(small_checkpoint());
  const TensorInfo tensor = *source.find(name);
  REQUIRE(tensor.dtype == Dtype::kF32);
  for (const auto& [value, text] : {std::pair{std::nanf(""), "found NaN"}, {-kInfinity, "found infinity"}}) {
    write_at(copy.path() + "/model.safetensors", tensor.offset + (3 * tensor.shape[1] + 5) * sizeof(float), value);
    for (const WeightFormat format : {kInt8Format, kInt4Format}) {
      const TempDir out;
      check_error([&] { write_pack(copy.path(), out.path(), format); },
                  {"model.safetensors", name, "cannot be quantized: row 3, column 5", text, "f32 or bf16"});
    }
    const TempDir out;
    CHECK_NOTHROW(write_pack(copy.path(), out.path(), kBf16Format));
  }
}

TEST_CASE("pack writer: experts whose exponents do not fit bf16c are refused by name, with the numbers") {
  Tensors tensors = tiny_tensors(tiny_family_config("olmoe"));
  std::vector<float> spread(8 * 6);
  for (size_t i = 0; i < spread.size(); ++i) spread[i] = std::ldexp(1.0f, static_cast<int>(i % 8) * 30 - 120);
  tensor_named(tensors, "model.layers.1.mlp.experts.1.up_proj.weight").data = bytes_of(spread);
  const CheckpointDirectory model(tiny_family_config("olmoe"));
  model.write_tensors(tensors);
  const TempDir out;
  check_error([&] { write_pack(model.path(), out.path(), kBf16cFormat); },
              {"model.layers.1.mlp.experts.1.up_proj.weight: bf16c codes 15 exponents a row",
               "of rows 0 to 31 42 of 256 weights have others, and 4 have room; pack it as bf16"},
              "checkpoint_invalid");
}

TEST_CASE("pack writer: gated experts are packed gate, up, down") {
  Tensors tensors = tiny_tensors(tiny_family_config("olmoe"));
  float next = 1;
  for (BuiltTensor& tensor : tensors) {
    count_up(tensor, next);
    next += static_cast<float>(tensor.data.size() / sizeof(float));
  }
  const CheckpointDirectory model(tiny_family_config("olmoe"));
  model.write("generation_config.json", R"({"eos_token_id":[2,3]})");
  model.write_tensors(tensors);
  const TempDir out;
  write_pack(model.path(), out.path());
  const Pack pack = open_pack(out.path());
  CHECK(pack.spec.tokens.end == std::vector<int32_t>{2, 3});
  CHECK(pack.experts.layers[0].matrices.size() == 3);
  CHECK(expert_name(pack, 4) == "decoder.1 expert 1");
  PackVerifier verifier(model.path(), out.path());
  verifier.check_dense(0, pack.dense.tensors.size());
  verifier.check_experts(0, pack.experts.experts());
  CHECK(verifier.report().experts.largest == 0);
  // Row 2 of the up matrix of expert 1 of layer 1.
  const std::string& up = tensor_named(tensors, "model.layers.1.mlp.experts.1.up_proj.weight").data;
  std::vector<float> row(8), expected(8);
  std::memcpy(expected.data(), up.data() + 2 * 8 * sizeof(float), 8 * sizeof(float));
  const std::string blocks = read_text_file(pack.expert_path());
  const auto* block = reinterpret_cast<const std::byte*>(blocks.data() + 4 * pack.experts.slot_bytes);
  read_panel_row(pack.experts.layers[1].matrix(block, Projection::kUp), 2, row.data());
  CHECK(row == expected);
}

class Verified {
 public:
  Verified(WeightFormat experts, WeightFormat dense) {
    write_pack(small_checkpoint(), dir_.path(), experts, dense);
    pack_ = open_pack(dir_.path());
  }
  const Pack& pack() const { return pack_; }
  PackVerifier::Report check() const {
    PackVerifier verifier(small_checkpoint(), dir_.path());
    verifier.check_dense(0, pack_.dense.tensors.size());
    verifier.check_experts(0, pack_.experts.experts());
    return verifier.report();
  }
  void check_found(const std::vector<std::string>& parts) const {
    check_error([&] { check(); }, parts, "pack_invalid");
  }

 private:
  TempDir dir_;
  Pack pack_;
};

TEST_CASE("pack verifier: a sound pack is within half a step of its checkpoint, and close to it") {
  CHECK(Verified(kF32Format, kF32Format).check().experts.largest == 0);
  for (const auto& [experts, dense] : {std::pair{kBf16Format, kBf16Format},
                                       {kBf16cFormat, kBf16Format},
                                       {kInt8Format, kInt8Format},
                                       {kInt4Format, kF32Format},
                                       {kQ8_0Format, kQ4_0Format}}) {
    CASE(experts, dense);
    const PackVerifier::Report report = Verified(experts, dense).check();
    CHECK(report.experts.bound == error_bound(experts));
    CHECK(report.experts.largest <= error_bound(experts));
    CHECK(report.experts.largest > 0.9 * error_bound(experts));
    CHECK(report.dense.largest <= error_bound(dense));
    CHECK((report.dense.largest == 0) == (dense == kF32Format));
  }
}

TEST_CASE("pack verifier: a flipped scale, sum or code is found and named with error and bound") {
  {
    const Verified verified(kInt8Format, kF32Format);
    const ExpertLayout& layout = verified.pack().experts;
    const ExpertMatrix& down = layout.layers[1].matrices.back();
    // Expert 1 of the second MoE layer; down; the scale of column 33: the second panel's second.
    const uint64_t panel =
        (layout.shape.experts_per_layer + 1) * layout.slot_bytes + down.offset + panel_stride(down.k, kInt8Format);
    const uint64_t scale = panel + code_bytes(down.k, WeightType::kInt8) + 4, sum = scale + kPanelColumns * 4;
    const std::string path = verified.pack().expert_path();
    const auto right = read_at<float>(path, scale);
    const std::string expert = verified.pack().spec.moe_layers()[1] + " expert 1: down";
    write_at(path, scale, std::bit_cast<float>(std::bit_cast<uint32_t>(right) ^ 1u << 22));
    verified.check_found({"experts.sida", expert, "row 33", "at most 0.394 %", "convert the model again"});
    write_at(path, scale, std::nanf(""));
    verified.check_found({expert, "row 33", "found inf"});
    write_at(path, scale, right);
    CHECK_NOTHROW(verified.check());
    write_at(path, sum, read_at<int32_t>(path, sum) + 1);
    verified.check_found({expert, "rows from 32", "the sums of their codes"});
  }
  {
    const Verified verified(kInt4Format, kF32Format);
    const std::string path = verified.pack().expert_path();
    const uint64_t scale = code_bytes(64, WeightType::kInt4);
    write_at(path, scale, static_cast<uint16_t>(read_at<uint16_t>(path, scale) ^ 1u << 6));
    verified.check_found({"expert 0: up", "row 0", "at most 7.2 %"});
  }
  {
    const Verified verified(kBf16cFormat, kF32Format);
    // Of the first panel of up; no weight changes.
    const size_t inputs = verified.pack().experts.layers[0].matrices[0].k;
    write_at(verified.pack().expert_path(), starts_offset(inputs), uint16_t{1});
    verified.check_found({"expert 0: up", "rows from 0", "escapes in the order of their places"});
  }
  const Verified verified(kInt4Format, kInt8Format);
  const std::vector<DenseTensor>& tensors = verified.pack().dense.tensors;
  const std::string path = verified.pack().dense_path();
  const auto code = read_at<int8_t>(path, tensors[0].offset);
  write_at(path, tensors[0].offset, static_cast<int8_t>(code ^ 0x40));
  verified.check_found({"dense.sida", tensors[0].name, "row 0"});
  write_at(path, tensors[0].offset, code);
  const DenseTensor& plain = *std::ranges::find_if(tensors, [](const DenseTensor& tensor) { return !tensor.panels(); });
  write_at(path, plain.offset, 1234.5f);
  verified.check_found({"dense.sida", plain.name, "the checkpoint's numbers"});
}

TEST_CASE("pack verifier: a checkpoint of another family is refused") {
  const CheckpointDirectory model(tiny_family_config("olmoe"));
  model.write_tensors(tiny_tensors(tiny_family_config("olmoe")));
  const TempDir pack;
  write_pack(small_checkpoint(), pack.path(), kInt8Format);
  check_error([&] { PackVerifier(model.path(), pack.path()); },
              {"model_type: expected olmoe, found switch_transformers"}, "pack_invalid");
}

TEST_CASE("finite weights: the first weight that is not finite is named with tensor, row and column") {
  for (const auto& [format, value] :
       grid(std::vector{kF32Format, kBf16Format}, std::vector{std::nanf(""), kInfinity})) {
    // The tiny model with one element of a tensor replaced.
    const auto check_with = [&](const std::string& name, size_t at, float element, const auto& check) {
      Tensors tensors = tiny_tensors();
      std::memcpy(tensor_named(tensors, name).data.data() + at * sizeof element, &element, sizeof element);
      const CheckpointDirectory model;
      model.write_tensors(tensors);
      const TempDir dir;
      write_pack(model.path(), dir.path(), format, format);
      check(open_pack(dir.path()));
    };
    check_with("decoder.block.1.layer.2.mlp.experts.expert_2.wo.weight", 8 + 3, value, [](const Pack& pack) {
      check_dense_finite(pack);
      check_experts_finite(pack, 0, 5);
      check_error([&] { check_experts_finite(pack, 0, 100); },
                  {"experts.sida", "decoder.1 expert 2: down: row 1, column 3", "expected a finite number", "found"},
                  "pack_invalid");
    });
    check_with("encoder.final_layer_norm.weight", 2, value, [](const Pack& pack) {
      check_error([&] { check_dense_finite(pack); }, {"dense.sida", "encoder.final_norm: row 2"}, "pack_invalid");
    });
    check_with("shared.weight", 0, 1.5f, [](const Pack& pack) {
      check_dense_finite(pack);
      check_experts_finite(pack, 0, 6);
    });
  }
}

}  // namespace
