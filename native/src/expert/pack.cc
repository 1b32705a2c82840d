#include "expert/pack.h"

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace sida {
namespace {

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

}  // namespace

std::vector<std::string> Pack::expert_paths() const {
  std::vector<std::string> paths;
  for (size_t stripe = 0; stripe < stripes.count; ++stripe) paths.push_back(expert_path(stripe));
  return paths;
}

Pack describe_pack(std::string directory, SwitchConfig config, WeightFormat experts, WeightFormat dense) {
  Pack pack;
  pack.directory = std::move(directory);
  pack.experts =
      make_expert_layout(experts, static_cast<size_t>(config.d_model), static_cast<size_t>(config.d_ff),
                         config.moe_layers().size(), static_cast<size_t>(config.num_experts));
  pack.dense = make_dense_layout(config, dense);
  pack.config = std::move(config);
  return pack;
}

Pack open_pack(const std::string& directory) {
  const std::string path = directory + "/manifest.json";
  const auto document = JsonDocument::parse(JsonInput(File::open(path)), {path, "pack_invalid"});
  const JsonValue root = document.root();
  const ManifestCheck check(path, root);
  const std::string format = root.at("format").as_string();
  if (format != "sida-pack") check.fail("format", "sida-pack", escape_text(format));
  const uint64_t version = root.at("version").as_u64();
  if (version != 1) check.equal("version", kPackVersion, version);
  const WeightFormat experts = check.format("experts", WeightRole::kExperts);
  const WeightFormat dense = check.format("dense", WeightRole::kDense);
  // Version 1 is version 2 without the quantized types.
  if (version == 1 && (quantized(experts) || quantized(dense))) check.equal("version", kPackVersion, version);
  Pack pack = describe_pack(directory, load_switch_config(directory + "/config.json"), experts, dense);
  if (const auto stripes = root.at("experts").find("stripes")) {
    pack.stripes = {stripes->at("count").as_u64(), stripes->at("stamp").as_string()};
    if (pack.stripes.count < 2 || pack.stripes.count > kMaxStripes) {
      check.fail("experts.stripes.count", "2 to " + std::to_string(kMaxStripes),
                 std::to_string(pack.stripes.count));
    }
    if (pack.stripes.stamp.size() > kMaxStamp) {
      check.fail("experts.stripes.stamp", "at most " + std::to_string(kMaxStamp) + " bytes",
                 std::to_string(pack.stripes.stamp.size()));
    }
  }
  check.equal("experts.block_bytes", pack.experts.block_bytes, check.at("experts", "block_bytes").as_u64());
  check.equal("experts.wo_offset", pack.experts.wo_offset, check.at("experts", "wo_offset").as_u64());
  check.equal("experts.wi_offset", pack.experts.wi_offset, check.at("experts", "wi_offset").as_u64());
  check.equal("experts.layers", pack.experts.layers, check.at("experts", "layers").size());
  size_t layer = 0;
  const std::vector<std::string> layers = pack.config.moe_layers();
  for (const JsonValue& name : check.at("experts", "layers").elements()) {
    check.equal("experts.layers", layers[layer++], name.as_string());
  }
  check.equal("experts.experts_per_layer", pack.experts.experts_per_layer,
              check.at("experts", "experts_per_layer").as_u64());
  check.equal("dense.bytes", pack.dense.bytes, check.at("dense", "bytes").as_u64());
  check.equal("dense.tensors", pack.dense.tensors.size(), check.at("dense", "tensors").size());
  size_t index = 0;
  for (const JsonValue& entry : check.at("dense", "tensors").elements()) {
    const DenseTensor& tensor = pack.dense.tensors[index++];
    check.equal("dense.tensors.name", tensor.name, entry.at("name").as_string());
    check.equal("dense.tensors.offset", tensor.offset, entry.at("offset").as_u64());
    check.equal("dense.tensors.dtype", weight_type_name(tensor.format.type), entry.at("dtype").as_string());
  }
  return pack;
}

}  // namespace sida
