#pragma once

#include <string>
#include <vector>

#include "checkpoint/switch_tensors.h"
#include "safetensors_builder.h"

namespace sida::testing {

/// config.json of a model of two layers a stack, one of them sparse, small enough to write in each case.
inline std::string tiny_config(const std::string& extra = "") {
  return R"({"model_type":"switch_transformers","vocab_size":10,"d_model":4,"d_kv":2,"d_ff":8,"num_heads":2,)"
         R"("num_layers":2,"num_decoder_layers":2,"num_sparse_encoder_layers":1,"num_sparse_decoder_layers":1,)"
         R"("num_experts":3,"relative_attention_num_buckets":8,"relative_attention_max_distance":16)" +
         (extra.empty() ? "" : "," + extra) + "}";
}

inline BuiltTensor zeros(const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t d : shape) count *= d;
  return {name, "F32", shape, std::string(count * 4, '\0')};
}

/// All tensors of a tied model, zeros.
inline std::vector<BuiltTensor> tiny_tensors(const std::string& config = tiny_config()) {
  std::vector<BuiltTensor> tensors{zeros("shared.weight", {10, 4})};
  for_each_switch_tensor(parse_switch_config(config, "config.json"),
                         [&](const std::string& name, const std::vector<uint64_t>& shape) {
                           tensors.push_back(zeros(name, shape));
                         });
  return tensors;
}

}  // namespace sida::testing
