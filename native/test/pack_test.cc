// Packs of every element type: what a manifest may say, what cannot be quantized, what a comparison finds.
#include "checkpoint/pack.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "checkpoint/pack_sources.h"
#include "checkpoint/pack_verifier.h"
#include "checkpoint/pack_writer.h"
#include "core/dtype.h"
#include "core/file.h"
#include "doctest/doctest.h"
#include "error_checks.h"
#include "model/model_config.h"
#include "ops/panel_layout.h"
#include "repo_paths.h"
#include "test_pack.h"
#include "tiny_model.h"

namespace sida {
namespace {

using testing::check_has;
using testing::error_of;
using testing::fixture;
using testing::TempDir;

constexpr WeightFormat kInt8{WeightType::kInt8, 0};
constexpr WeightFormat kInt4{WeightType::kInt4, 64};

const std::string& checkpoint() {
  static const std::string directory = fixture("switch-tiny-untied");
  return directory;
}

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_text_file(path, 1 << 20);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  std::ofstream(path) << text;
}

template <class T>
void write_at(const std::string& path, uint64_t offset, T value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
  REQUIRE(file.good());
}

template <class T>
T read_at(const std::string& path, uint64_t offset) {
  T value;
  File::open(path).pread_exact(offset, &value, sizeof value);
  return value;
}

TEST_CASE("pack: a manifest names formats that exist, with the layout that follows from them") {
  struct Case {
    WeightFormat experts;
    const char *from, *to;
    std::vector<std::string> parts;
  };
  for (const Case& c : std::vector<Case>{
           {kInt8,
            "\"int8\"",
            "\"int5\"",
            {"experts.dtype", "expected f32, bf16, int8 or int4", "found int5"}},
           {kInt4, "\"group\":64", "\"group\":0", {"experts.group", "expected 32, 64 or 128", "found 0"}},
           {kInt4, "\"group\":64", "\"group\":7", {"experts.group", "expected 32, 64 or 128", "found 7"}},
           {kInt4, "\"group\":64", "\"group\":1000000000", {"experts.group", "found 1000000000"}},
           {kInt4, "\"group\":64", "\"group\":4294967360", {"experts.group", "found 4294967360"}},
           {kInt4, "\"group\":64", "\"group\":\"64\"", {"manifest.json", "\"64\""}},
           {kInt4, ",\"group\":64", "", {"experts.group", "expected 32, 64 or 128", "found none"}},
           {kInt4, "\"group\":64", "\"group\":32", {"experts.matrices.offset: expected"}},
           {kInt8,
            "\"int8\"",
            "\"int8\",\"group\":64",
            {"experts.group", "expected none beside int8", "found 64"}},
           {kF32Format, "\"dtype\":\"f32\"", "\"dtype\":\"int8\"", {"experts.block_bytes: expected"}},
           {kInt8, "\"int8\"", "\"f32\"", {"experts.block_bytes: expected"}},
           {kInt8, "\"version\":3", "\"version\":1", {"version: expected 3, found 1; convert the model again"}},
           {kInt8, "\"version\":3", "\"version\":2", {"version: expected 3, found 2; convert the model again"}},
           {kInt8, "\"version\":3", "\"version\":4", {"version: expected 3, found 4"}},
           {kInt8, "\"matrices\":[", "\"matrices\":[1,", {"experts.matrices: expected 2, found 3"}},
           {kInt8, "\"up\"", "\"gate\"", {"experts.matrices.name: expected up, found gate"}},
           {kInt8, "[128,64]", "[64,128]", {"experts.matrices.shape: expected 128, found 64"}},
           {kInt8, "[128,64]", "[128]", {"experts.matrices.shape: expected 2, found 1"}},
           {kInt8, "\"encoder.1\"", "\"encoder.0\"", {"experts.layers: expected encoder.1, found encoder.0"}},
           {kInt8, "\"head\"", "\"tail\"", {"dense.tensors.name: expected head, found tail"}},
           {kInt8,
            "\"dense\":{\"dtype\":\"f32\"",
            "\"dense\":{\"dtype\":\"int4\",\"group\":64",
            {"dense.dtype", "expected f32, bf16 or int8", "found int4"}},
           {kInt8,
            "embedding\",\"dtype\":\"f32\"",
            "embedding\",\"dtype\":\"int8\"",
            {"dense.tensors.dtype: expected f32, found int8"}},
       }) {
    CAPTURE(std::string(c.to));
    TempDir dir;
    testing::write_pack(checkpoint(), dir.path(), c.experts);
    replace_in(dir.path() + "/manifest.json", c.from, c.to);
    check_has(error_of([&] { open_pack(dir.path()); }, "pack_invalid"), c.parts);
  }
}

TEST_CASE("pack: stripes are counted and stamped within bounds") {
  for (const auto& [stripes, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {R"({"count":1,"stamp":"a"})", {"experts.stripes.count", "expected 2 to 64", "found 1"}},
           {R"({"count":65,"stamp":"a"})", {"experts.stripes.count", "found 65"}},
           {R"({"count":18446744073709551615,"stamp":"a"})", {"manifest.json"}},
           {R"({"count":2})", {"manifest.json", "stamp"}},
           {R"({"count":2,"stamp":")" + std::string(1025, 'a') + R"("})",
            {"experts.stripes.stamp", "expected at most 1024 bytes", "found 1025"}},
       }) {
    TempDir dir;
    testing::write_pack(checkpoint(), dir.path(), kInt8);
    replace_in(dir.path() + "/manifest.json", "\"int8\"", "\"int8\",\"stripes\":" + stripes);
    check_has(error_of([&] { open_pack(dir.path()); }, "pack_invalid"), parts);
  }
}

TEST_CASE("pack writer: writes nothing once it is closed") {
  TempDir dir;
  PackWriter writer(checkpoint(), dir.path(), kInt8, kF32Format);
  writer.close();
  const size_t experts = writer.pack().experts.experts();
  error_of([&] { writer.write_experts(0, 1); }, "internal");
  // Nothing but the seals is left to write.
  error_of([&] { writer.write_experts(experts, experts); }, "internal");
}

TEST_CASE("pack: quantized experts are a fraction of the bytes, in whole pages") {
  // Switch-base: 768 x 2048
  const ModelSpec spec = parse_model_config(R"({"model_type":"switch_transformers"})", "config.json").spec;
  const auto bytes = [&](WeightFormat format) {
    return describe_pack("", spec, format, kF32Format).experts.block_bytes;
  };
  const double whole = static_cast<double>(bytes(kF32Format));
  CHECK(static_cast<double>(bytes(kInt8)) < 0.26 * whole);
  for (const uint32_t group : {32, 64, 128}) {
    // Half a byte a weight and two for each group's scale.
    const double expected = (0.5 + 2.0 / group) / 4;
    CHECK(static_cast<double>(bytes({WeightType::kInt4, group})) < (expected + 0.001) * whole);
  }
  CHECK(bytes(kInt8) % 4096 == 0);
  CHECK(bytes(kInt4) % 4096 == 0);
}

TEST_CASE("pack: a weight that is no finite number cannot be quantized, and the tensor is named") {
  TempDir copy;
  std::filesystem::copy(
      checkpoint(), copy.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const std::string weights = copy.path() + "/model.safetensors";
  const std::string name = "encoder.block.1.layer.1.mlp.experts.expert_2.wi.weight";
  const Checkpoint source = Checkpoint::open(checkpoint());
  const TensorInfo tensor = *source.find(name);
  const uint64_t width = tensor.bytes / tensor.elements();
  REQUIRE(width == 4);
  const uint64_t k = tensor.shape[1];
  for (const auto& [value, text] : std::vector<std::pair<float, std::string>>{
           {std::nanf(""), "found NaN"},
           {-std::numeric_limits<float>::infinity(), "found infinity"},
       }) {
    write_at(weights, tensor.offset + (3 * k + 5) * width, value);
    for (const WeightFormat format : {kInt8, kInt4}) {
      TempDir out;
      check_has(error_of([&] { testing::write_pack(copy.path(), out.path(), format); }),
                {"model.safetensors", name, "cannot be quantized: row 3, column 5", text, "f32 or bf16"});
    }
    TempDir out;
    CHECK_NOTHROW(testing::write_pack(copy.path(), out.path(), kBf16Format));
  }
}

class Verified {
 public:
  Verified(WeightFormat experts, WeightFormat dense) {
    testing::write_pack(checkpoint(), dir_.path(), experts, dense);
    pack_ = open_pack(dir_.path());
  }
  const Pack& pack() const { return pack_; }
  PackVerifier::Report check() const {
    PackVerifier verifier(checkpoint(), dir_.path());
    verifier.check_dense(0, pack_.dense.tensors.size());
    verifier.check_experts(0, pack_.experts.experts());
    return verifier.report();
  }

 private:
  TempDir dir_;
  Pack pack_;
};

TEST_CASE("pack verifier: a sound pack is within half a step of its checkpoint, and close to it") {
  CHECK(Verified(kF32Format, kF32Format).check().experts == 0);
  for (const auto& [experts, dense] : std::vector<std::pair<WeightFormat, WeightFormat>>{
           {kBf16Format, kBf16Format}, {kInt8, kInt8}, {kInt4, kF32Format}}) {
    const PackVerifier::Report report = Verified(experts, dense).check();
    CHECK(report.experts <= error_bound(experts));
    CHECK(report.experts > 0.9 * error_bound(experts));
    CHECK(report.dense <= error_bound(dense));
    CHECK((report.dense == 0) == (dense == kF32Format));
  }
}

TEST_CASE("pack verifier: a flipped scale, sum or code is found and named with error and bound") {
  const auto check_found = [](const Verified& verified, const std::vector<std::string>& parts) {
    check_has(error_of([&] { verified.check(); }, "pack_invalid"), parts);
  };
  {
    const Verified verified(kInt8, kF32Format);
    const ExpertLayout& layout = verified.pack().experts;
    const ExpertMatrix& down = layout.matrices.back();
    // Expert 1 of the second MoE layer; down; the scale of column 33: the second panel's second.
    const uint64_t panel = (layout.shape.experts_per_layer + 1) * layout.block_bytes + down.offset +
                           panel_stride(down.k, kInt8);
    const uint64_t scale = panel + code_bytes(down.k, WeightType::kInt8) + 4;
    const std::string path = verified.pack().expert_path(0);
    const auto right = read_at<float>(path, scale);
    const std::string expert = verified.pack().spec.moe_layers()[1] + " expert 1: down";
    write_at(path, scale, std::bit_cast<float>(std::bit_cast<uint32_t>(right) ^ 1u << 22));
    check_found(verified, {"experts.sida", expert, "row 33", "at most 0.394 %", "convert the model again"});
    write_at(path, scale, std::nanf(""));
    check_found(verified, {expert, "row 33", "found inf"});
    write_at(path, scale, right);
    CHECK_NOTHROW(verified.check());
    const uint64_t sum = scale + kPanelColumns * 4;
    write_at(path, sum, read_at<int32_t>(path, sum) + 1);
    check_found(verified, {expert, "rows from 32", "the sums of their codes"});
  }
  {
    const Verified verified(kInt4, kF32Format);
    const std::string path = verified.pack().expert_path(0);
    const uint64_t scale = code_bytes(64, WeightType::kInt4);
    write_at(path, scale, static_cast<uint16_t>(read_at<uint16_t>(path, scale) ^ 1u << 6));
    check_found(verified, {"expert 0: up", "row 0", "at most 7.2 %"});
  }
  {
    const Verified verified(kInt4, kInt8);
    const DenseTensor& tensor = verified.pack().dense.tensors[0];
    const std::string path = verified.pack().dense_path();
    write_at(path, tensor.offset, static_cast<int8_t>(read_at<int8_t>(path, tensor.offset) ^ 0x40));
    check_found(verified, {"dense.sida", tensor.name, "row 0"});
  }
  {
    const Verified verified(kInt4, kInt8);
    for (const DenseTensor& tensor : verified.pack().dense.tensors) {
      if (tensor.panels()) continue;
      write_at(verified.pack().dense_path(), tensor.offset, 1234.5f);
      check_found(verified, {"dense.sida", tensor.name, "the checkpoint's numbers"});
      break;
    }
  }
}

TEST_CASE("pack: gated experts are packed gate, up, down, out of tensors of their own or fused ones") {
  const std::string config = testing::tiny_olmoe_config();
  std::vector<testing::BuiltTensor> single = testing::tiny_tensors(config);
  float next = 1;
  for (testing::BuiltTensor& tensor : single) {
    std::vector<float> values(tensor.data.size() / sizeof(float));
    for (float& value : values) value = next++;
    tensor.data = testing::bytes_of(values);
  }
  // The same numbers, fused.
  std::vector<testing::BuiltTensor> fused = testing::tiny_tensors(config, true);
  const auto data_of = [&](const std::string& name) {
    for (const testing::BuiltTensor& tensor : single) {
      if (tensor.name == name) return tensor.data;
    }
    return std::string();
  };
  for (testing::BuiltTensor& tensor : fused) {
    const size_t at = tensor.name.find(".experts.");
    if (at == std::string::npos) {
      tensor.data = data_of(tensor.name);
      continue;
    }
    tensor.data.clear();
    for (int e = 0; e < 3; ++e) {
      const std::string own = tensor.name.substr(0, at + 9) + std::to_string(e);
      const bool down = tensor.name.ends_with("down_proj");
      for (const char* name : down ? std::vector{".down_proj"} : std::vector{".gate_proj", ".up_proj"}) {
        tensor.data += data_of(own + name + ".weight");
      }
    }
  }
  std::string blocks[2], dense[2];
  for (int i = 0; i < 2; ++i) {
    TempDir model, out;
    testing::write_file(model.path() + "/config.json", config);
    testing::write_file(model.path() + "/generation_config.json", R"({"eos_token_id":[2,3]})");
    testing::write_file(model.path() + "/model.safetensors", testing::build_safetensors(i == 0 ? single : fused));
    testing::write_pack(model.path(), out.path());
    const Pack pack = open_pack(out.path());
    CHECK(pack.spec.tokens.end == std::vector<int32_t>{2, 3});
    CHECK(pack.experts.matrices.size() == 3);
    for (auto [path, to] : {std::pair{pack.expert_path(), &blocks[i]}, std::pair{pack.dense_path(), &dense[i]}}) {
      const File file = File::open(path);
      to->resize(file.size());
      file.pread_exact(0, to->data(), to->size());
    }
    PackVerifier verifier(model.path(), out.path());
    verifier.check_dense(0, pack.dense.tensors.size());
    verifier.check_experts(0, pack.experts.experts());
    CHECK(verifier.report().experts == 0);
    CHECK(expert_name(pack, 4) == "decoder.1 expert 1");
    // Row 2 of the up matrix of expert 1 of layer 1.
    const std::string up = data_of("model.layers.1.mlp.experts.1.up_proj.weight");
    std::vector<float> row(8), expected(8);
    std::memcpy(expected.data(), up.data() + 2 * 8 * sizeof(float), 8 * sizeof(float));
    const auto* block = reinterpret_cast<const std::byte*>(blocks[i].data() + 4 * pack.experts.block_bytes);
    read_panel_row(pack.experts.matrix(block, Projection::kUp), 2, row.data());
    CHECK(row == expected);
  }
  CHECK(blocks[0] == blocks[1]);
  CHECK(dense[0] == dense[1]);
}

TEST_CASE("pack verifier: a checkpoint of another family is refused") {
  TempDir model, pack;
  testing::write_file(model.path() + "/config.json", testing::tiny_olmoe_config());
  testing::write_file(model.path() + "/model.safetensors",
                      testing::build_safetensors(testing::tiny_tensors(testing::tiny_olmoe_config())));
  testing::write_pack(checkpoint(), pack.path(), kInt8);
  check_has(error_of([&] { PackVerifier(model.path(), pack.path()); }, "pack_invalid"),
            {"model_type: expected olmoe, found switch_transformers"});
}

TEST_CASE("lossless formats: bf16 where all matrices of the kind are, whatever norms and routers are") {
  const std::string config = testing::tiny_olmoe_config();
  const auto formats = [&](const std::vector<std::string>& wide) {
    TempDir model;
    std::vector<testing::BuiltTensor> tensors = testing::tiny_tensors(config);
    for (testing::BuiltTensor& tensor : tensors) {
      const auto is = [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; };
      if (std::any_of(wide.begin(), wide.end(), is)) continue;
      tensor.dtype = "BF16";
      tensor.data.resize(tensor.data.size() / 2);
    }
    testing::write_file(model.path() + "/config.json", config);
    testing::write_file(model.path() + "/model.safetensors", testing::build_safetensors(tensors));
    return lossless_formats(Checkpoint::open(model.path()));
  };
  const LosslessFormats narrow = formats({"norm", "mlp.gate.weight"});
  CHECK(narrow.experts == kBf16Format);
  CHECK(narrow.dense == kBf16Format);
  CHECK(formats({"experts.1.up_proj"}).experts == kF32Format);
  CHECK(formats({"experts.1.up_proj"}).dense == kBf16Format);
  CHECK(formats({"lm_head"}).experts == kBf16Format);
  CHECK(formats({"lm_head"}).dense == kF32Format);
}

}  // namespace
}  // namespace sida
