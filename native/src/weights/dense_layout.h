#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spec/tensors.h"
#include "weights/weight_format.h"

namespace sida {

/// One tensor of the dense file.
struct DenseTensor {
  TensorSlot slot;
  std::string name;  ///< the slot's label
  WeightFormat format;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  /// Panels of a (n, k) matrix; otherwise f32 rows.
  bool panels() const { return slot.form != TensorForm::kRows; }
  bool router() const { return slot.form == TensorForm::kRouter; }
  uint64_t rows() const { return slot.shape.front(); }
  /// Numbers of a row.
  uint64_t columns() const { return slot.shape.size() > 1 ? slot.shape[1] : 1; }
};

/// The dense file: every weight except the experts', in the kernels' layout, 64-byte aligned. A pure function of the
/// model's spec and the dense element types, so a memory plan needs no file.
struct DenseLayout {
  std::vector<DenseTensor> tensors;
  uint64_t bytes = 0;
  uint64_t router_bytes = 0;
};

/// `formats` of the dense slots in their order apply to linear weights and embeddings; norms, routers and position
/// biases stay f32.
DenseLayout make_dense_layout(const ModelSpec& spec, std::span<const WeightFormat> formats);
/// The same with one type for all linear weights and embeddings.
DenseLayout make_dense_layout(const ModelSpec& spec, WeightFormat format);

/// The same tensors in the same order without the routers, for a device that routes only by tables.
DenseLayout without_routers(const DenseLayout& layout);

}  // namespace sida
