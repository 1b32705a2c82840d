#pragma once

#include <cstddef>
#include <cstdint>

#include "weights/panel_layout.h"

namespace sida {

/// A weight matrix in panels: y (rows, n) = x (rows, k) · W + bias. Does not own its data.
struct PanelMatrix {
  const std::byte* data = nullptr;
  WeightFormat format;
  size_t k = 0;
  size_t n = 0;
  const float* bias = nullptr;  ///< (n); null: none

  size_t panels() const { return (n + kPanelColumns - 1) / kPanelColumns; }
};

/// Bytes of one panel of 32 columns.
uint64_t panel_bytes(size_t k, WeightFormat format);

/// Bytes of a (n, k) matrix in panels.
uint64_t panel_matrix_bytes(size_t n, size_t k, WeightFormat format);

/// Packs `weight`, (n, k) row-major f32 as a checkpoint's Linear holds it. bf16 and bf16c round to nearest even; the
/// other types are quantized (ops/quantize.h), with a scale of NaN where not all of its weights are finite. Not for the
/// types that sida only copies (weights/weight_blocks.h).
void pack_panels(const float* weight, size_t n, size_t k, WeightFormat format, std::byte* out);

/// Row `row` of the packed (n, k) matrix as f32; a quantized weight is what its type says. Looks up
/// embeddings, which may also be the tied head.
void read_panel_row(const PanelMatrix& matrix, size_t row, float* out);

}  // namespace sida
