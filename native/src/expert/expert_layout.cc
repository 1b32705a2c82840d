#include "expert/expert_layout.h"

#include <algorithm>

namespace sida {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kPage = 4096;

constexpr uint64_t rounded(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

PanelMatrix ExpertLayout::matrix(const std::byte* block, Projection projection) const {
  for (const ExpertMatrix& matrix : matrices) {
    if (matrix.projection != projection) continue;
    const auto* bias = matrix.bias ? reinterpret_cast<const float*>(block + *matrix.bias) : nullptr;
    return {block + matrix.offset, format, matrix.k, matrix.n, bias};
  }
  return {};
}

ExpertPlace ExpertShape::place(ExpertId id) const {
  if (first.empty()) return {id / experts_per_layer, id % experts_per_layer};
  const auto after = std::upper_bound(first.begin(), first.end(), id);
  const auto layer = static_cast<size_t>(after - first.begin()) - 1;
  return {layer, id - first[layer]};
}

ExpertLayout make_expert_layout(const ExpertShape& shape, WeightFormat format) {
  ExpertLayout layout{format, shape, {}, 0};
  uint64_t end = 0;
  const auto add = [&](Projection projection, size_t n, size_t k) {
    const uint64_t offset = rounded(end, kAlignment);
    layout.matrices.push_back({projection, n, k, offset});
    end = offset + panel_matrix_bytes(n, k, format);
    if (!shape.biased) return;
    layout.matrices.back().bias = end = rounded(end, kAlignment);
    end += n * sizeof(float);
  };
  if (gated(shape.activation)) add(Projection::kGate, shape.hidden, shape.width);
  add(Projection::kUp, shape.hidden, shape.width);
  add(Projection::kDown, shape.width, shape.hidden);
  // A model without experts has zero blocks, of one page each.
  layout.block_bytes = std::max(rounded(end, kPage), kPage);
  return layout;
}

}  // namespace sida
