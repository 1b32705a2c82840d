// Packs: what a manifest may say, and how large blocks are.
#include "checkpoint/pack.h"

#include <fstream>
#include <string>
#include <vector>

#include "core/file.h"
#include "doctest/doctest.h"
#include "model/model_config.h"
#include "support/error_checks.h"
#include "support/pack_files.h"
#include "support/text_file.h"

namespace sida {
namespace {

using testing::check_has;
using testing::error_of;
using testing::kInt4Format;
using testing::kInt8Format;
using testing::small_checkpoint;
using testing::TempDir;

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_text_file(path, 1 << 20);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  std::ofstream(path) << text;
}

TEST_CASE("pack: a manifest names formats that exist, with the layout that follows from them") {
  struct Case {
    WeightFormat experts;
    const char *from, *to;
    std::vector<std::string> parts;
  };
  for (const Case& c : std::vector<Case>{
           {kInt8Format,
            "\"int8\"",
            "\"int5\"",
            {"experts.dtype", "expected f32, bf16, int8, int4, mxfp4, q8_0, q4_0, q4_k or q6_k", "found int5"}},
           {kInt4Format, "\"group\":64", "\"group\":0", {"experts.group", "expected 32, 64 or 128", "found 0"}},
           {kInt4Format, "\"group\":64", "\"group\":7", {"experts.group", "expected 32, 64 or 128", "found 7"}},
           {kInt4Format, "\"group\":64", "\"group\":1000000000", {"experts.group", "found 1000000000"}},
           {kInt4Format, "\"group\":64", "\"group\":4294967360", {"experts.group", "found 4294967360"}},
           {kInt4Format, "\"group\":64", "\"group\":\"64\"", {"manifest.json", "\"64\""}},
           {kInt4Format, ",\"group\":64", "", {"experts.group", "expected 32, 64 or 128", "found none"}},
           {kInt4Format, "\"group\":64", "\"group\":32", {"experts.matrices.offset: expected"}},
           {kInt8Format,
            "\"int8\"",
            "\"int8\",\"group\":64",
            {"experts.group", "expected none beside int8", "found 64"}},
           {kF32Format, "\"dtype\":\"f32\"", "\"dtype\":\"int8\"", {"experts.block_bytes: expected"}},
           {kInt8Format, "\"int8\"", "\"f32\"", {"experts.block_bytes: expected"}},
           {kInt8Format, "\"version\":3", "\"version\":1", {"version: expected 3, found 1; convert the model again"}},
           {kInt8Format, "\"version\":3", "\"version\":2", {"version: expected 3, found 2; convert the model again"}},
           {kInt8Format, "\"version\":3", "\"version\":4", {"version: expected 3, found 4"}},
           {kInt8Format, "\"matrices\":[", "\"matrices\":[1,", {"experts.matrices: expected 2, found 3"}},
           {kInt8Format, "\"up\"", "\"gate\"", {"experts.matrices.name: expected up, found gate"}},
           {kInt8Format, "[128,64]", "[64,128]", {"experts.matrices.shape: expected 128, found 64"}},
           {kInt8Format, "[128,64]", "[128]", {"experts.matrices.shape: expected 2, found 1"}},
           {kInt8Format, "\"encoder.1\"", "\"encoder.0\"", {"experts.layers: expected encoder.1, found encoder.0"}},
           {kInt8Format, "\"head\"", "\"tail\"", {"dense.tensors.name: expected head, found tail"}},
           {kInt8Format,
            "\"dense\":{\"dtype\":\"f32\"",
            "\"dense\":{\"dtype\":\"int4\",\"group\":64",
            {"dense.dtype", "expected f32, bf16, int8, mxfp4, q8_0, q4_0, q4_k or q6_k", "found int4"}},
           {kInt8Format,
            "embedding\",\"dtype\":\"f32\"",
            "embedding\",\"dtype\":\"int8\"",
            {"dense.tensors.dtype: expected f32, found int8"}},
       }) {
    CAPTURE(std::string(c.to));
    TempDir dir;
    testing::write_pack(small_checkpoint(), dir.path(), c.experts);
    replace_in(dir.path() + "/manifest.json", c.from, c.to);
    check_has(error_of([&] { open_pack(dir.path()); }, "pack_invalid"), c.parts);
  }
}

TEST_CASE("pack: a manifest of mixed types is read back, and one that does not fit is refused") {
  const auto mixed = [](const std::string& directory) {
    Checkpoint checkpoint = Checkpoint::open(small_checkpoint());
    PackFormats formats = uniform_formats(checkpoint.spec(), kQ4_0Format, kF32Format);
    formats.all_experts.reset();
    formats.all_dense.reset();
    formats.experts[0].down = kQ8_0Format;
    PackWriter writer(std::move(checkpoint), directory, std::move(formats));
    testing::finish_pack(writer, small_checkpoint());
  };
  TempDir sound;
  mixed(sound.path());
  const Pack pack = open_pack(sound.path());
  CHECK(!pack.formats.all_experts);
  CHECK(pack.formats.experts[0].up == kQ4_0Format);
  CHECK(pack.formats.experts[0].down == kQ8_0Format);
  CHECK(pack.formats.experts[1].down == kQ4_0Format);
  CHECK(pack.experts.layers[0].bytes > pack.experts.layers[1].bytes);
  CHECK(pack.experts.slot_bytes == pack.experts.layers[0].bytes);
  struct Case {
    const char *from, *to;
    std::vector<std::string> parts;
  };
  for (const Case& c : std::vector<Case>{
           {"\"layout_of_layer\":[0,", "\"layout_of_layer\":[9,", {"experts.layout_of_layer", "found 9"}},
           {"\"layout_of_layer\":[0,", "\"layout_of_layer\":[", {"experts.layout_of_layer: expected"}},
           {"\"q8_0\"", "\"q4_0\"", {"experts.block_bytes: expected"}},
           {"\"q8_0\"", "\"q9_0\"", {"experts.layouts.matrices.dtype", "found q9_0"}},
           {"\"q8_0\"", "\"q6_k\"", {"experts."}},
           {"embedding\",\"dtype\":\"f32\"", "embedding\",\"dtype\":\"int4\"", {"dense.tensors.dtype", "found int4"}},
       }) {
    CAPTURE(std::string(c.to));
    TempDir dir;
    mixed(dir.path());
    replace_in(dir.path() + "/manifest.json", c.from, c.to);
    check_has(error_of([&] { open_pack(dir.path()); }, "pack_invalid"), c.parts);
  }
}

TEST_CASE("pack: types in blocks of 256 need rows of whole blocks") {
  TempDir dir;
  testing::write_pack(small_checkpoint(), dir.path(), kQ8_0Format);
  replace_in(dir.path() + "/manifest.json", "\"dtype\":\"q8_0\"", "\"dtype\":\"q6_k\"");
  CHECK_FALSE(error_of([&] { open_pack(dir.path()); }, "pack_invalid").empty());
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
    testing::write_pack(small_checkpoint(), dir.path(), kInt8Format);
    replace_in(dir.path() + "/manifest.json", "\"int8\"", "\"int8\",\"stripes\":" + stripes);
    check_has(error_of([&] { open_pack(dir.path()); }, "pack_invalid"), parts);
  }
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
    CHECK(static_cast<double>(bytes({WeightType::kInt4, group})) < (expected + 0.001) * whole);
  }
  CHECK(bytes(kInt8Format) % 4096 == 0);
  CHECK(bytes(kInt4Format) % 4096 == 0);
}

}  // namespace
}  // namespace sida
