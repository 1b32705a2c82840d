#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/spec.h"
#include "ops/weight_format.h"

namespace sida {

/// One tensor of the dense file.
struct DenseTensor {
  std::string name;  ///< the checkpoint's name
  std::vector<uint64_t> shape;
  WeightFormat format;
  bool panels = false;  ///< panels of a (n, k) matrix; otherwise f32 rows
  bool router = false;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// The dense file: every weight but the experts', kernel-ready, 64-byte aligned. A pure function of the
/// model's shape and the dense element type, so that a plan needs no file.
struct DenseLayout {
  std::vector<DenseTensor> tensors;
  WeightFormat format;  ///< of linear weights and embeddings
  uint64_t bytes = 0;
  uint64_t router_bytes = 0;
};

/// `format` applies to linear weights and embeddings; norms, routers and position biases stay f32.
DenseLayout make_dense_layout(const ModelSpec& spec, WeightFormat format);

/// The same tensors in the same order without the routers: what a device holds that routes by tables alone.
DenseLayout without_routers(const DenseLayout& layout);

}  // namespace sida
