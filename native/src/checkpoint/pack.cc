#include "checkpoint/pack.h"

#include "checkpoint/contained_path.h"
#include "checkpoint/model_file.h"
#include "checkpoint/model_files.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "model/expert_shape.h"

namespace sida {
namespace {

constexpr const char* kManifest = "manifest.json";

class ManifestCheck {
 public:
  ManifestCheck(std::string file, JsonValue root) : file_(std::move(file)), root_(root) {}

  JsonValue at(const char* section, const char* key) const { return root_.at(section).at(key); }

  WeightFormat format(const char* section, WeightRole role) const {
    const auto group = root_.at(section).find("group");
    return named_weight_format(
        role, at(section, "dtype").as_string(), group ? std::optional(group->as_u64()) : std::nullopt,
        [&](const std::string& field, const std::string& expected, const std::string& found) {
          fail(std::string(section) + "." + field, expected, found);
        });
  }
  void equal(const std::string& what, uint64_t expected, uint64_t found) const {
    if (expected != found) fail(what, std::to_string(expected), std::to_string(found));
  }
  void equal(const std::string& what, const std::string& expected, const std::string& found) const {
    if (expected != found) fail(what, escape_text(expected), escape_text(found));
  }
  [[noreturn]] void fail(const std::string& what, const std::string& expected,
                         const std::string& found) const {
    throw Error("pack_invalid", file_ + ": " + what + ": expected " + expected + ", found " + found +
                                    "; convert the model again");
  }

 private:
  std::string file_;
  JsonValue root_;
};

Stripes read_stripes(const ManifestCheck& check, JsonValue json) {
  Stripes stripes{json.at("count").as_u64(), json.at("stamp").as_string()};
  if (stripes.count < 2 || stripes.count > kMaxStripes) {
    check.fail("experts.stripes.count", "2 to " + std::to_string(kMaxStripes), std::to_string(stripes.count));
  }
  if (stripes.stamp.size() > kMaxStamp) {
    check.fail("experts.stripes.stamp", "at most " + std::to_string(kMaxStamp) + " bytes",
               std::to_string(stripes.stamp.size()));
  }
  return stripes;
}

void check_experts(const ManifestCheck& check, const Pack& pack) {
  const ExpertLayout& layout = pack.experts;
  check.equal("experts.block_bytes", layout.block_bytes, check.at("experts", "block_bytes").as_u64());
  const JsonValue matrices = check.at("experts", "matrices");
  check.equal("experts.matrices", layout.matrices.size(), matrices.size());
  auto matrix = layout.matrices.begin();
  for (const JsonValue& entry : matrices.elements()) {
    check.equal("experts.matrices.name", projection_name(matrix->projection), entry.at("name").as_string());
    check.equal("experts.matrices.shape", 2, entry.at("shape").size());
    size_t size = matrix->n;
    for (const JsonValue& found : entry.at("shape").elements()) {
      check.equal("experts.matrices.shape", size, found.as_u64());
      size = matrix->k;
    }
    check.equal("experts.matrices.offset", matrix->offset, entry.at("offset").as_u64());
    ++matrix;
  }
  check.equal("experts.layers", layout.shape.layers, check.at("experts", "layers").size());
  const std::vector<std::string> layers = pack.spec.moe_layers();
  auto layer = layers.begin();
  for (const JsonValue& name : check.at("experts", "layers").elements()) {
    check.equal("experts.layers", *layer++, name.as_string());
  }
  check.equal("experts.experts_per_layer", layout.shape.experts_per_layer,
              check.at("experts", "experts_per_layer").as_u64());
}

void check_dense(const ManifestCheck& check, const DenseLayout& layout) {
  check.equal("dense.bytes", layout.bytes, check.at("dense", "bytes").as_u64());
  check.equal("dense.tensors", layout.tensors.size(), check.at("dense", "tensors").size());
  auto tensor = layout.tensors.begin();
  for (const JsonValue& entry : check.at("dense", "tensors").elements()) {
    check.equal("dense.tensors.name", tensor->name, entry.at("name").as_string());
    check.equal("dense.tensors.offset", tensor->offset, entry.at("offset").as_u64());
    check.equal("dense.tensors.dtype", weight_type_name(tensor->format.type), entry.at("dtype").as_string());
    ++tensor;
  }
}

}  // namespace

std::vector<std::string> Pack::expert_paths() const {
  std::vector<std::string> paths;
  for (size_t stripe = 0; stripe < stripes.count; ++stripe) paths.push_back(expert_path(stripe));
  return paths;
}

File Pack::open_dense() const { return open_model_file(directory, kDenseFile); }

std::vector<File> Pack::open_experts() const {
  std::vector<File> files;
  for (const std::string& path : expert_paths()) files.push_back(File::open(path));
  return files;
}

Pack describe_pack(std::string directory, ModelSpec spec, WeightFormat experts, WeightFormat dense) {
  Pack pack;
  pack.directory = std::move(directory);
  pack.experts = make_expert_layout(expert_shape_of(spec), experts);
  pack.dense = make_dense_layout(spec, dense);
  pack.spec = std::move(spec);
  return pack;
}

Pack open_pack(const std::string& directory) {
  const std::string path = join_path(directory, kManifest);
  const auto document = JsonDocument::parse(JsonInput(open_model_file(directory, kManifest)), {path, "pack_invalid"});
  const JsonValue root = document.root();
  const ManifestCheck check(path, root);
  const std::string format = root.at("format").as_string();
  if (format != "sida-pack") check.fail("format", "sida-pack", escape_text(format));
  check.equal("version", kPackVersion, root.at("version").as_u64());
  const WeightFormat experts = check.format("experts", WeightRole::kExperts);
  const WeightFormat dense = check.format("dense", WeightRole::kDense);
  Pack pack = describe_pack(directory, read_model_files(directory).spec, experts, dense);
  if (const auto stripes = root.at("experts").find("stripes")) pack.stripes = read_stripes(check, *stripes);
  // Only a stripe may be a link to anywhere, such as another disk.
  if (pack.stripes.count == 1) contained_path(directory, pack.stripe_layout().file_name(0));
  check_experts(check, pack);
  check_dense(check, pack.dense);
  return pack;
}

}  // namespace sida
