#include "checkpoint/pack.h"

#include <filesystem>
#include <system_error>

#include "checkpoint/contained_path.h"
#include "checkpoint/model_file.h"
#include "checkpoint/model_files.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "weights/expert_shape.h"

namespace sida {
namespace {

constexpr const char* kManifest = "manifest.json";

class ManifestCheck {
 public:
  ManifestCheck(std::string file, JsonValue root) : file_(std::move(file)), root_(root) {}

  JsonValue at(const char* section, const char* key) const { return root_.at(section).at(key); }

  /// The type that `entry` names; nothing where its matrices differ.
  std::optional<WeightFormat> common_format(const char* section, WeightRole role) const {
    const JsonValue entry = root_.at(section);
    if (entry.at("dtype").as_string() == kMixedFormats) return std::nullopt;
    return format(section, entry, role);
  }
  WeightFormat format(const std::string& what, JsonValue entry, WeightRole role) const {
    const auto group = entry.find("group");
    return named_weight_format(role, entry.at("dtype").as_string(),
                               group ? std::optional(group->as_u64()) : std::nullopt,
                               [&](const std::string& field, const std::string& expected, const std::string& found) {
                                 fail(what + "." + field, expected, found);
                               });
  }
  void equal(const std::string& what, uint64_t expected, uint64_t found) const {
    if (expected != found) fail(what, std::to_string(expected), std::to_string(found));
  }
  void equal(const std::string& what, const std::string& expected, const std::string& found) const {
    if (expected != found) fail(what, escape_text(expected), escape_text(found));
  }
  [[noreturn]] void fail(const std::string& what, const std::string& expected, const std::string& found) const {
    throw Error("pack_invalid",
                file_ + ": " + what + ": expected " + expected + ", found " + found + "; convert the model again");
  }

 private:
  std::string file_;
  JsonValue root_;
};

/// The type of each matrix that `layouts` lists.
ExpertFormats layout_formats(const ManifestCheck& check, JsonValue layout) {
  ExpertFormats formats;
  for (const JsonValue& entry : layout.at("matrices").elements()) {
    const std::string name = entry.at("name").as_string();
    for (const Projection projection : {Projection::kGate, Projection::kUp, Projection::kDown}) {
      if (name != projection_name(projection)) continue;
      WeightFormat& of = projection == Projection::kGate ? formats.gate
                         : projection == Projection::kUp ? formats.up
                                                         : formats.down;
      of = check.format("experts.layouts.matrices", entry, WeightRole::kExperts);
    }
  }
  return formats;
}

/// The layouts that `experts` lists, and which of them each MoE layer has.
std::vector<JsonValue> layer_layouts(const ManifestCheck& check, JsonValue experts, size_t layers) {
  if (experts.at("dtype").as_string() != kMixedFormats) return std::vector<JsonValue>(layers, experts);
  std::vector<JsonValue> all, of_layers;
  for (const JsonValue& layout : experts.at("layouts").elements()) all.push_back(layout);
  for (const JsonValue& index : experts.at("layout_of_layer").elements()) {
    const uint64_t number = index.as_u64();
    if (number >= all.size()) {
      check.fail("experts.layout_of_layer", "a number below " + std::to_string(all.size()), std::to_string(number));
    }
    of_layers.push_back(all[number]);
  }
  check.equal("experts.layout_of_layer", layers, of_layers.size());
  return of_layers;
}

PackFormats read_formats(const ManifestCheck& check, JsonValue root, const ModelSpec& spec) {
  PackFormats formats;
  if (const auto experts = check.common_format("experts", WeightRole::kExperts)) {
    formats.set_experts(spec, *experts);
  } else {
    for (const JsonValue& layout : layer_layouts(check, root.at("experts"), spec.moe_layer_count())) {
      formats.experts.push_back(layout_formats(check, layout));
    }
  }
  if (const auto dense = check.common_format("dense", WeightRole::kDense)) {
    formats.set_dense(spec, *dense);
    return formats;
  }
  for (const JsonValue& tensor : root.at("dense").at("tensors").elements()) {
    formats.dense.push_back(check.format("dense.tensors", tensor, WeightRole::kDense));
  }
  size_t slots = 0;
  for_each_dense_slot(spec, [&](const TensorSlot&) { ++slots; });
  check.equal("dense.tensors", slots, formats.dense.size());
  return formats;
}

void check_inputs(const ManifestCheck& check, const std::string& what, uint64_t k, WeightFormat format) {
  if (k % block_inputs(format.type) == 0) return;
  check.fail(what, "a type for rows of " + std::to_string(k) + " numbers", weight_type_name(format.type));
}

void check_block(const ManifestCheck& check, const BlockLayout& layout, JsonValue found) {
  check.equal("experts.block_bytes", layout.bytes, found.at("block_bytes").as_u64());
  const JsonValue matrices = found.at("matrices");
  check.equal("experts.matrices", layout.matrices.size(), matrices.size());
  auto matrix = layout.matrices.begin();
  for (const JsonValue& entry : matrices.elements()) {
    check.equal("experts.matrices.name", projection_name(matrix->projection), entry.at("name").as_string());
    check_inputs(check, "experts.matrices.dtype", matrix->k, matrix->format);
    check.equal("experts.matrices.shape", 2, entry.at("shape").size());
    size_t size = matrix->n;
    for (const JsonValue& number : entry.at("shape").elements()) {
      check.equal("experts.matrices.shape", size, number.as_u64());
      size = matrix->k;
    }
    check.equal("experts.matrices.offset", matrix->offset, entry.at("offset").as_u64());
    ++matrix;
  }
}

void check_experts(const ManifestCheck& check, const Pack& pack, JsonValue experts) {
  const ExpertLayout& layout = pack.experts;
  const std::vector<JsonValue> found = layer_layouts(check, experts, layout.shape.layers);
  for (size_t layer = 0; layer < found.size(); ++layer) check_block(check, layout.layers[layer], found[layer]);
  check.equal("experts.layers", layout.shape.layers, experts.at("layers").size());
  const std::vector<std::string> layers = pack.spec.moe_layers();
  auto layer = layers.begin();
  for (const JsonValue& name : experts.at("layers").elements()) {
    check.equal("experts.layers", *layer++, name.as_string());
  }
  const JsonValue counts = experts.at("experts_per_layer");
  if (layout.shape.first.empty()) {
    check.equal("experts.experts_per_layer", layout.shape.experts_per_layer, counts.as_u64());
    return;
  }
  check.equal("experts.experts_per_layer", layout.shape.layers, counts.size());
  size_t at = 0;
  for (const JsonValue count : counts.elements()) {
    check.equal("experts.experts_per_layer", layout.shape.experts_of(at++), count.as_u64());
  }
}

void check_dense(const ManifestCheck& check, const DenseLayout& layout) {
  check.equal("dense.bytes", layout.bytes, check.at("dense", "bytes").as_u64());
  check.equal("dense.tensors", layout.tensors.size(), check.at("dense", "tensors").size());
  auto tensor = layout.tensors.begin();
  for (const JsonValue& entry : check.at("dense", "tensors").elements()) {
    check.equal("dense.tensors.name", tensor->name, entry.at("name").as_string());
    check.equal("dense.tensors.offset", tensor->offset, entry.at("offset").as_u64());
    check_inputs(check, "dense.tensors.dtype", tensor->columns(), tensor->format);
    check.equal("dense.tensors.dtype", weight_type_name(tensor->format.type), entry.at("dtype").as_string());
    ++tensor;
  }
}

/// Where the link to a GGUF file leads. The name of the file counts, because it names the other parts of a split model.
std::string linked_gguf(const ManifestCheck& check, const std::string& directory) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(join_path(directory, kGgufLink), error);
  if (error || !target.is_absolute()) check.fail(kGgufLink, "a link to a GGUF file", error ? "none" : target.string());
  return target.string();
}

}  // namespace

File Pack::open_dense() const { return open_model_file(directory, kDenseFile); }

Pack describe_pack(std::string directory, ModelSpec spec, PackFormats formats) {
  Pack pack;
  pack.directory = std::move(directory);
  pack.experts = make_expert_layout(expert_shape_of(spec), formats.experts);
  pack.dense = make_dense_layout(spec, formats.dense);
  pack.spec = std::move(spec);
  pack.formats = std::move(formats);
  return pack;
}

Pack describe_pack(std::string directory, ModelSpec spec, WeightFormat experts, WeightFormat dense) {
  PackFormats formats = uniform_formats(spec, experts, dense);
  return describe_pack(std::move(directory), std::move(spec), std::move(formats));
}

Pack open_pack(const std::string& directory) {
  const std::string path = join_path(directory, kManifest);
  const auto document = JsonDocument::parse(JsonInput(open_model_file(directory, kManifest)), {path, "pack_invalid"});
  const JsonValue root = document.root();
  const ManifestCheck check(path, root);
  const std::string format = root.at("format").as_string();
  if (format != "sida-pack") check.fail("format", "sida-pack", escape_text(format));
  check.equal("version", kPackVersion, root.at("version").as_u64());
  ModelSpec spec = read_model_files(directory).spec;
  PackFormats formats = read_formats(check, root, spec);
  Pack pack = describe_pack(directory, std::move(spec), std::move(formats));
  if (const auto file = root.at("experts").find("file"); file && file->as_string() == kGgufLink) {
    pack.gguf = linked_gguf(check, directory);
  }
  // Only a GGUF file may be a link to anywhere, such as another disk.
  if (pack.gguf.empty()) contained_path(directory, kExpertFile);
  check_experts(check, pack, root.at("experts"));
  check_dense(check, pack.dense);
  return pack;
}

}  // namespace sida
