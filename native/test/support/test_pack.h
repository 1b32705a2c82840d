#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/pack_writer.h"
#include "engine/engine.h"

namespace sida::testing {

inline std::string format_json(WeightFormat format) {
  const std::string dtype = std::string(R"("dtype":")") + weight_type_name(format.type) + '"';
  return format.type != WeightType::kInt4 ? dtype : dtype + R"(,"group":)" + std::to_string(format.group);
}

inline std::string block_json(const BlockLayout& layout, bool typed) {
  std::string json = R"("block_bytes":)" + std::to_string(layout.bytes) + R"(,"matrices":[)";
  for (const ExpertMatrix& matrix : layout.matrices) {
    json += (matrix.offset > 0 ? R"(,{"name":")" : R"({"name":")") + std::string(projection_name(matrix.projection)) +
            R"(","shape":[)" + std::to_string(matrix.n) + ',' + std::to_string(matrix.k) + R"(],"offset":)" +
            std::to_string(matrix.offset) + (typed ? "," + format_json(matrix.format) : "") + '}';
  }
  return json + "]";
}

/// The `experts` of a manifest up to their layers' names.
inline std::string experts_json(const Pack& pack) {
  if (const auto& format = pack.formats.all_experts) {
    return format_json(*format) + "," + block_json(make_expert_layout(pack.experts.shape, *format).layers.at(0), false);
  }
  std::string layouts, of_layers;
  for (size_t layer = 0; layer < pack.experts.layers.size(); ++layer) {
    layouts += (layer > 0 ? ",{" : "{") + block_json(pack.experts.layers[layer], true) + "}";
    of_layers += (layer > 0 ? "," : "") + std::to_string(layer);
  }
  return R"("dtype":"mixed","layouts":[)" + layouts + R"(],"layout_of_layer":[)" + of_layers + "]";
}

inline std::string experts_per_layer_json(const ExpertShape& shape) {
  if (shape.first.empty()) return std::to_string(shape.experts_per_layer);
  std::string counts;
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    counts += (layer > 0 ? "," : "[") + std::to_string(shape.experts_of(layer));
  }
  return counts + "]";
}

/// Writes what is left of a checkpoint's pack into the writer's directory.
inline void finish_pack(PackWriter& writer, const std::string& checkpoint) {
  writer.write_dense();
  writer.write_experts(0, writer.pack().experts.experts());
  writer.close();
  const Pack& pack = writer.pack();
  for (const char* name : {"/config.json", "/generation_config.json"}) {
    if (std::filesystem::exists(checkpoint + name)) {
      std::filesystem::copy_file(checkpoint + name, pack.directory + name);
    }
  }
  if (!pack.gguf.empty()) std::filesystem::create_symlink(pack.gguf, pack.directory + "/" + kGgufLink);
  std::ofstream manifest(pack.directory + "/manifest.json");
  manifest << R"({"format":"sida-pack","version":3,"experts":{)"
           << (pack.gguf.empty() ? "" : std::string(R"("file":")") + kGgufLink + R"(",)") << experts_json(pack)
           << R"(,"layers":[)";
  const std::vector<std::string> layers = pack.spec.moe_layers();
  for (size_t i = 0; i < layers.size(); ++i) manifest << (i > 0 ? "," : "") << '"' << layers[i] << '"';
  const auto& dense = pack.formats.all_dense;
  manifest << R"(],"experts_per_layer":)" << experts_per_layer_json(pack.experts.shape) << R"(},"dense":{)"
           << (dense ? format_json(*dense) : R"("dtype":"mixed")") << R"(,"bytes":)" << pack.dense.bytes
           << R"(,"tensors":[)";
  for (const DenseTensor& tensor : pack.dense.tensors) {
    manifest << (tensor.offset > 0 ? "," : "") << R"({"name":")" << tensor.name << R"(",)" << format_json(tensor.format)
             << R"(,"offset":)" << tensor.offset << '}';
  }
  manifest << "]}}";
}

/// Packs a checkpoint into `directory` with the element types given; without one matrices keep their own.
inline void write_pack(const std::string& checkpoint, const std::string& directory,
                       std::optional<WeightFormat> experts = kF32Format,
                       std::optional<WeightFormat> dense = kF32Format) {
  PackWriter writer(checkpoint, directory, experts, dense);
  finish_pack(writer, checkpoint);
}

inline EngineOptions options_for(const std::string& pack, const BatchLimits& limits, double share) {
  EngineOptions options;
  options.pack = pack;
  options.limits = limits;
  const Pack opened = open_pack(pack);
  const MemoryPlan plan = plan_memory(opened, limits);
  options.budget_bytes = std::max(
      plan.smallest(), plan.fixed() + static_cast<uint64_t>(share * static_cast<double>(plan.slot * plan.experts)));
  return options;
}

}  // namespace sida::testing
