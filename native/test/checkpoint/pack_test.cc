// Packs: what a manifest may say, the types of their matrices, and how large blocks are.
#include "checkpoint/pack.h"

#include "checkpoint/pack_formats.h"
#include "support/checkpoint_directory.h"
#include "support/pack_files.h"

namespace {

/// Packs the small checkpoint, without a format in several.
void write_small_pack(const std::string& directory, std::optional<WeightFormat> experts) {
  if (experts) return write_pack(small_checkpoint(), directory, experts);
  Checkpoint checkpoint = Checkpoint::open(small_checkpoint());
  PackFormats formats = uniform_formats(checkpoint.spec(), kQ4_0Format, kF32Format);
  formats.all_experts.reset();
  formats.all_dense.reset();
  formats.experts[0].down = kQ8_0Format;
  PackWriter writer(std::move(checkpoint), directory, std::move(formats));
  finish_pack(writer, small_checkpoint());
}

// clang-format off
/// Types of blocks, as messages list them.
const std::string kBlocks =
    "q8_0, q4_0, q4_k, q6_k, q4_1, q5_0, q5_1, q5_k, q3_k, q2_k, iq4_nl, iq4_xs, iq2, iq3_xxs or iq3_s";

TEST_CASE("pack: a manifest names formats that exist, with the layout that follows from them") {
  struct Row {
    std::optional<WeightFormat> experts;
    std::string from, to;
    std::vector<std::string> parts;
  };
  constexpr WeightFormat f32 = kF32Format, int8 = kInt8Format, int4 = kInt4Format;
  const std::string q8 = "\"q8_0\"", layouts = "\"layout_of_layer\":[0,", embedding = "embedding\",\"dtype\":\"f32\"";
  const Row rows[] = {
      {int8, "\"int8\"", "\"int5\"",
       {"experts.dtype", "expected f32, bf16, bf16c, int8, int4, mxfp4, " + kBlocks, "found int5"}},
      {int4, "\"group\":64", "\"group\":0", {"experts.group", "expected 32, 64 or 128", "found 0"}},
      {int4, "\"group\":64", "\"group\":7", {"experts.group", "expected 32, 64 or 128", "found 7"}},
      {int4, "\"group\":64", "\"group\":1000000000", {"experts.group", "found 1000000000"}},
      {int4, "\"group\":64", "\"group\":4294967360", {"experts.group", "found 4294967360"}},
      {int4, "\"group\":64", "\"group\":\"64\"", {"manifest.json", "\"64\""}},
      {int4, ",\"group\":64", "", {"experts.group", "expected 32, 64 or 128", "found none"}},
      {int4, "\"group\":64", "\"group\":32", {"experts.matrices.offset: expected"}},
      {int8, "\"int8\"", "\"int8\",\"group\":64", {"experts.group", "expected none beside int8", "found 64"}},
      {f32, "\"dtype\":\"f32\"", "\"dtype\":\"int8\"", {"experts.block_bytes: expected"}},
      {int8, "\"int8\"", "\"f32\"", {"experts.block_bytes: expected"}},
      {int8, "\"version\":3", "\"version\":1", {"version: expected 3, found 1; convert the model again"}},
      {int8, "\"version\":3", "\"version\":2", {"version: expected 3, found 2; convert the model again"}},
      {int8, "\"version\":3", "\"version\":4", {"version: expected 3, found 4"}},
      {int8, "\"matrices\":[", "\"matrices\":[1,", {"experts.matrices: expected 2, found 3"}},
      {int8, "\"up\"", "\"gate\"", {"experts.matrices.name: expected up, found gate"}},
      {int8, "[128,64]", "[64,128]", {"experts.matrices.shape: expected 128, found 64"}},
      {int8, "[128,64]", "[128]", {"experts.matrices.shape: expected 2, found 1"}},
      {int8, "\"encoder.1\"", "\"encoder.0\"", {"experts.layers: expected encoder.1, found encoder.0"}},
      {int8, "\"head\"", "\"tail\"", {"dense.tensors.name: expected head, found tail"}},
      {int8, "\"dense\":{\"dtype\":\"f32\"", "\"dense\":{\"dtype\":\"int4\",\"group\":64",
       {"dense.dtype", "expected f32, bf16, int8, mxfp4, " + kBlocks, "found int4"}},
      {int8, "\"dense\":{\"dtype\":\"f32\"", "\"dense\":{\"dtype\":\"bf16c\"", {"dense.dtype", "found bf16c"}},
      {int8, embedding, "embedding\",\"dtype\":\"int8\"", {"dense.tensors.dtype: expected f32, found int8"}},
      // Types in blocks of 256 need rows of whole blocks.
      {kQ8_0Format, "\"dtype\":\"q8_0\"", "\"dtype\":\"q6_k\"", {}},
      {{}, layouts, "\"layout_of_layer\":[9,", {"experts.layout_of_layer", "found 9"}},
      {{}, layouts, "\"layout_of_layer\":[", {"experts.layout_of_layer: expected"}},
      {{}, q8, "\"q4_0\"", {"experts.block_bytes: expected"}},
      {{}, q8, "\"q9_0\"", {"experts.layouts.matrices.dtype", "found q9_0"}},
      {{}, q8, "\"q6_k\"", {"experts."}},
      {{}, embedding, "embedding\",\"dtype\":\"int4\"", {"dense.tensors.dtype", "found int4"}},
  };
  // clang-format on
  for (const Row& row : rows) {
    CASE(row.from, row.to);
    const TempDir dir;
    write_small_pack(dir.path(), row.experts);
    replace_in(dir.path() + "/manifest.json", row.from, row.to);
    check_error([&] { open_pack(dir.path()); }, row.parts, "pack_invalid");
  }
}

TEST_CASE("pack: a manifest of mixed types is read back") {
  const TempDir dir;
  write_small_pack(dir.path(), {});
  const Pack pack = open_pack(dir.path());
  CHECK(!pack.formats.all_experts);
  CHECK(pack.formats.experts[0].up == kQ4_0Format);
  CHECK(pack.formats.experts[0].down == kQ8_0Format);
  CHECK(pack.formats.experts[1].down == kQ4_0Format);
  CHECK(pack.experts.layers[0].bytes > pack.experts.layers[1].bytes);
  CHECK(pack.experts.slot_bytes == pack.experts.layers[0].bytes);
}

TEST_CASE("pack: quantized experts are a fraction of the bytes, in whole pages") {
  // Switch-base: 768 x 2048
  const ModelSpec spec = parse_model_config(R"({"model_type":"switch_transformers"})", "config.json").spec;
  const auto bytes = [&](WeightFormat format) {
    return describe_pack("", spec, format, kF32Format).experts.slot_bytes;
  };
  const double whole = static_cast<double>(bytes(kF32Format));
  CHECK(static_cast<double>(bytes(kInt8Format)) < 0.26 * whole);
  for (const uint32_t group : {32, 64, 128}) {
    // Half a byte a weight and two for each group's scale.
    const double expected = (0.5 + 2.0 / group) / 4;
    CHECK(static_cast<double>(bytes(int4_format(group))) < (expected + 0.001) * whole);
  }
  CHECK(bytes(kInt8Format) % 4096 == 0);
  CHECK(bytes(kInt4Format) % 4096 == 0);
}

TEST_CASE("pack formats: bf16 loses nothing where all matrices of the kind are bf16, whatever norms and routers are") {
  const std::string config = tiny_family_config("olmoe");
  const auto formats = [&](const std::vector<std::string>& wide) {
    Tensors tensors = tiny_tensors(config);
    for (BuiltTensor& tensor : tensors) {
      const auto is = [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; };
      if (std::ranges::any_of(wide, is)) continue;
      tensor.dtype = "BF16";
      tensor.data.resize(tensor.data.size() / 2);
    }
    const PackFormats found = lossless_formats(open_checkpoint(config, tensors));
    return std::pair{found.all_experts, found.all_dense};
  };
  using Formats = std::pair<std::optional<WeightFormat>, std::optional<WeightFormat>>;
  CHECK(formats({"norm", "mlp.gate.weight"}) == Formats{kBf16Format, kBf16Format});
  CHECK(formats({"experts.1.up_proj"}) == Formats{kF32Format, kBf16Format});
  CHECK(formats({"lm_head"}) == Formats{kBf16Format, kF32Format});
}

TEST_CASE("pack formats: types that sida does not make are refused by name") {
  const std::string config = tiny_family_config("olmoe");
  const Checkpoint checkpoint = open_checkpoint(config, tiny_tensors(config));
  check_error([&] { chosen_formats(checkpoint, kQ4_KFormat, {}); }, {"experts: sida does not quantize to q4_k", "GGUF"},
              "invalid_request");
  check_error([&] { chosen_formats(checkpoint, {}, kQ6_KFormat); }, {"dense: sida does not quantize to q6_k"},
              "invalid_request");
  CHECK(chosen_formats(checkpoint, kQ8_0Format, {}).experts[0].up == kQ8_0Format);
}

}  // namespace
