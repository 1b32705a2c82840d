#include "weights/expert_layout.h"

#include <algorithm>

namespace sida {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kPage = 4096;

constexpr uint64_t rounded(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }

BlockLayout block_layout(const ExpertShape& shape, const ExpertFormats& formats) {
  BlockLayout layout;
  uint64_t end = 0;
  const auto add = [&](Projection projection, size_t n, size_t k) {
    const uint64_t offset = rounded(end, kAlignment);
    const WeightFormat format = formats.of(projection);
    layout.matrices.push_back({projection, n, k, format, offset});
    end = offset + panel_matrix_bytes(n, k, format);
    if (!shape.biased) return;
    layout.matrices.back().bias = end = rounded(end, kAlignment);
    end += n * sizeof(float);
  };
  if (gated(shape.activation)) add(Projection::kGate, shape.hidden, shape.width);
  add(Projection::kUp, shape.hidden, shape.width);
  add(Projection::kDown, shape.width, shape.hidden);
  layout.bytes = rounded(end, kPage);
  return layout;
}

}  // namespace

PanelMatrix BlockLayout::matrix(const std::byte* block, Projection projection) const {
  for (const ExpertMatrix& matrix : matrices) {
    if (matrix.projection != projection) continue;
    const auto* bias = matrix.bias ? reinterpret_cast<const float*>(block + *matrix.bias) : nullptr;
    return {block + matrix.offset, matrix.format, matrix.k, matrix.n, bias};
  }
  return {};
}

WeightFormat BlockLayout::format(Projection projection) const {
  return std::ranges::find(matrices, projection, &ExpertMatrix::projection)->format;
}

void ExpertShape::set_experts(std::span<const size_t> counts) {
  layers = counts.size();
  experts_per_layer = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  first.clear();
  if (std::all_of(counts.begin(), counts.end(), [&](size_t count) { return count == experts_per_layer; })) return;
  first = {0};
  for (const size_t count : counts) first.push_back(first.back() + static_cast<ExpertId>(count));
}

ExpertPlace ExpertShape::place(ExpertId id) const {
  if (first.empty()) return {id / experts_per_layer, id % experts_per_layer};
  const auto after = std::upper_bound(first.begin(), first.end(), id);
  const auto layer = static_cast<size_t>(after - first.begin()) - 1;
  return {layer, id - first[layer]};
}

uint64_t ExpertLayout::blocks_end(size_t count) const {
  uint64_t end = 0;
  for (size_t layer = 0; layer < layers.size() && shape.first_id(layer) < count; ++layer) {
    end += std::min(count - shape.first_id(layer), shape.experts_of(layer)) * layers[layer].bytes;
  }
  return end;
}

ExpertLayout make_expert_layout(const ExpertShape& shape, std::span<const ExpertFormats> formats) {
  // A model without experts has zero blocks, of one page each.
  ExpertLayout layout{shape, {}, kPage};
  for (const ExpertFormats& layer : formats) {
    layout.layers.push_back(block_layout(shape, layer));
    layout.slot_bytes = std::max(layout.slot_bytes, layout.layers.back().bytes);
  }
  return layout;
}

ExpertLayout make_expert_layout(const ExpertShape& shape, WeightFormat format) {
  const std::vector<ExpertFormats> formats(shape.layers, {format, format, format});
  return make_expert_layout(shape, formats);
}

}  // namespace sida
