// The blocks that a pack's writer writes, and the weights it refuses to quantize.
#include "checkpoint/pack_writer.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/pack_verifier.h"
#include "core/file.h"
#include "doctest/doctest.h"
#include "ops/panel_layout.h"
#include "support/error_checks.h"
#include "support/pack_files.h"
#include "support/tiny_model.h"

namespace sida {
namespace {

using testing::check_has;
using testing::error_of;
using testing::kInt4Format;
using testing::kInt8Format;
using testing::small_checkpoint;
using testing::TempDir;
using testing::write_at;

TEST_CASE("pack writer: writes nothing once it is closed") {
  TempDir dir;
  PackWriter writer(small_checkpoint(), dir.path(), kInt8Format, kF32Format);
  writer.close();
  const size_t experts = writer.pack().experts.experts();
  error_of([&] { writer.write_experts(0, 1); }, "internal");
  // Only the seals are left to write.
  error_of([&] { writer.write_experts(experts, experts); }, "internal");
}

TEST_CASE("pack: a weight that is no finite number cannot be quantized, and the tensor is named") {
  TempDir copy;
  std::filesystem::copy(
      small_checkpoint(), copy.path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const std::string weights = copy.path() + "/model.safetensors";
  const std::string name = "encoder.block.1.layer.1.mlp.experts.expert_2.wi.weight";
  const Checkpoint source = Checkpoint::open(small_checkpoint());
  const TensorInfo tensor = *source.find(name);
  const uint64_t width = tensor.bytes / tensor.elements();
  REQUIRE(width == 4);
  const uint64_t k = tensor.shape[1];
  for (const auto& [value, text] : std::vector<std::pair<float, std::string>>{
           {std::nanf(""), "found NaN"},
           {-std::numeric_limits<float>::infinity(), "found infinity"},
       }) {
    write_at(weights, tensor.offset + (3 * k + 5) * width, value);
    for (const WeightFormat format : {kInt8Format, kInt4Format}) {
      TempDir out;
      check_has(error_of([&] { testing::write_pack(copy.path(), out.path(), format); }),
                {"model.safetensors", name, "cannot be quantized: row 3, column 5", text, "f32 or bf16"});
    }
    TempDir out;
    CHECK_NOTHROW(testing::write_pack(copy.path(), out.path(), kBf16Format));
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
    CHECK(pack.experts.layers[0].matrices.size() == 3);
    for (auto [path, to] : {std::pair{pack.expert_path(), &blocks[i]}, std::pair{pack.dense_path(), &dense[i]}}) {
      const File file = File::open(path);
      to->resize(file.size());
      file.pread_exact(0, to->data(), to->size());
    }
    PackVerifier verifier(model.path(), out.path());
    verifier.check_dense(0, pack.dense.tensors.size());
    verifier.check_experts(0, pack.experts.experts());
    CHECK(verifier.report().experts.largest == 0);
    CHECK(expert_name(pack, 4) == "decoder.1 expert 1");
    // Row 2 of the up matrix of expert 1 of layer 1.
    const std::string up = data_of("model.layers.1.mlp.experts.1.up_proj.weight");
    std::vector<float> row(8), expected(8);
    std::memcpy(expected.data(), up.data() + 2 * 8 * sizeof(float), 8 * sizeof(float));
    const auto* block = reinterpret_cast<const std::byte*>(blocks[i].data() + 4 * pack.experts.slot_bytes);
    read_panel_row(pack.experts.layers[1].matrix(block, Projection::kUp), 2, row.data());
    CHECK(row == expected);
  }
  CHECK(blocks[0] == blocks[1]);
  CHECK(dense[0] == dense[1]);
}

}  // namespace
}  // namespace sida
