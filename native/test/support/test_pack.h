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

/// Packs a checkpoint into `directory` with the element types given.
inline void write_pack(const std::string& checkpoint, const std::string& directory,
                       WeightFormat experts = kF32Format, WeightFormat dense = kF32Format) {
  PackWriter writer(checkpoint, directory, experts, dense);
  writer.write_dense();
  writer.write_experts(0, writer.pack().experts.experts());
  writer.close();
  for (const char* name : {"/config.json", "/generation_config.json"}) {
    if (std::filesystem::exists(checkpoint + name)) std::filesystem::copy_file(checkpoint + name, directory + name);
  }
  const Pack& pack = writer.pack();
  std::ofstream manifest(directory + "/manifest.json");
  manifest << R"({"format":"sida-pack","version":3,"experts":{)" << format_json(experts)
           << R"(,"block_bytes":)" << pack.experts.block_bytes << R"(,"matrices":[)";
  for (const ExpertMatrix& matrix : pack.experts.matrices) {
    manifest << (matrix.offset > 0 ? "," : "") << R"({"name":")" << projection_name(matrix.projection)
             << R"(","shape":[)" << matrix.n << ',' << matrix.k << R"(],"offset":)" << matrix.offset << '}';
  }
  manifest << R"(],"layers":[)";
  const std::vector<std::string> layers = pack.spec.moe_layers();
  for (size_t i = 0; i < layers.size(); ++i) manifest << (i > 0 ? "," : "") << '"' << layers[i] << '"';
  manifest << R"(],"experts_per_layer":)" << pack.experts.shape.experts_per_layer << R"(},"dense":{)"
           << format_json(dense) << R"(,"bytes":)" << pack.dense.bytes << R"(,"tensors":[)";
  for (const DenseTensor& tensor : pack.dense.tensors) {
    manifest << (tensor.offset > 0 ? "," : "") << R"({"name":")" << tensor.name << R"(",)"
             << format_json(tensor.format) << R"(,"offset":)" << tensor.offset << '}';
  }
  manifest << "]}}";
}

inline EngineOptions options_for(const std::string& pack, const BatchLimits& limits, double share) {
  EngineOptions options;
  options.pack = pack;
  options.limits = limits;
  const Pack opened = open_pack(pack);
  const MemoryPlan plan = plan_memory(opened.spec, opened.experts.format, opened.dense.format, limits);
  options.budget_bytes =
      std::max(plan.smallest(),
               plan.fixed() + static_cast<uint64_t>(share * static_cast<double>(plan.slot * plan.experts)));
  return options;
}

}  // namespace sida::testing
