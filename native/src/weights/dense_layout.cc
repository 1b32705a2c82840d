#include "weights/dense_layout.h"

#include <utility>

#include "weights/panels.h"

namespace sida {
namespace {

void append(DenseLayout& layout, DenseTensor tensor) {
  const uint64_t bytes = (tensor.bytes + 63) / 64 * 64;
  tensor.offset = layout.bytes;
  layout.bytes += bytes;
  if (tensor.router()) layout.router_bytes += bytes;
  layout.tensors.push_back(std::move(tensor));
}

}  // namespace

DenseLayout make_dense_layout(const ModelSpec& spec, std::span<const WeightFormat> formats) {
  DenseLayout layout;
  auto format = formats.begin();
  for_each_dense_slot(spec, [&](const TensorSlot& slot) {
    DenseTensor tensor{slot, slot.label(spec), slot.form == TensorForm::kMatrix ? *format : kF32Format};
    tensor.bytes = tensor.panels() ? panel_matrix_bytes(tensor.rows(), tensor.columns(), tensor.format)
                                   : tensor.rows() * tensor.columns() * sizeof(float);
    append(layout, std::move(tensor));
    ++format;
  });
  return layout;
}

DenseLayout make_dense_layout(const ModelSpec& spec, WeightFormat format) {
  size_t slots = 0;
  for_each_dense_slot(spec, [&](const TensorSlot&) { ++slots; });
  return make_dense_layout(spec, std::vector<WeightFormat>(slots, format));
}

DenseLayout without_routers(const DenseLayout& layout) {
  DenseLayout kept;
  for (const DenseTensor& tensor : layout.tensors) {
    if (!tensor.router()) append(kept, tensor);
  }
  return kept;
}

}  // namespace sida
