#include "ops/panels.h"

#include <cstring>

#include "core/dtype.h"

namespace sida {

uint64_t panel_bytes(size_t k, WeightFormat format) {
  return format == kBf16Format ? (k + 1) / 2 * 2 * kPanelColumns * 2 : k * kPanelColumns * 4;
}

uint64_t panel_matrix_bytes(size_t n, size_t k, WeightFormat format) {
  return (n + kPanelColumns - 1) / kPanelColumns * panel_bytes(k, format);
}

void pack_panels(const float* weight, size_t n, size_t k, WeightFormat format, std::byte* out) {
  std::memset(out, 0, panel_matrix_bytes(n, k, format));
  for (size_t row = 0; row < n; ++row) {
    const size_t panel = row / kPanelColumns;
    const size_t column = row % kPanelColumns;
    const float* source = weight + row * k;
    if (format == kBf16Format) {
      auto* target = reinterpret_cast<uint16_t*>(out) + panel * ((k + 1) / 2) * 64;
      for (size_t i = 0; i < k; ++i) target[i / 2 * 64 + column * 2 + i % 2] = f32_to_bf16(source[i]);
    } else {
      auto* target = reinterpret_cast<float*>(out) + panel * k * kPanelColumns;
      for (size_t i = 0; i < k; ++i) target[i * kPanelColumns + column] = source[i];
    }
  }
}

void read_panel_row(const PanelMatrix& matrix, size_t row, float* out) {
  const size_t panel = row / kPanelColumns;
  const size_t column = row % kPanelColumns;
  if (matrix.format == kBf16Format) {
    const auto* source = reinterpret_cast<const uint16_t*>(matrix.data) + panel * ((matrix.k + 1) / 2) * 64;
    for (size_t i = 0; i < matrix.k; ++i) out[i] = bf16_to_f32(source[i / 2 * 64 + column * 2 + i % 2]);
  } else {
    const auto* source = reinterpret_cast<const float*>(matrix.data) + panel * matrix.k * kPanelColumns;
    for (size_t i = 0; i < matrix.k; ++i) out[i] = source[i * kPanelColumns + column];
  }
}

}  // namespace sida
