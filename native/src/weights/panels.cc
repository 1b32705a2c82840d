#include "weights/panels.h"

#include <cstring>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "weights/coded_panels.h"
#include "weights/grouped_row.h"
#include "weights/quantize.h"

namespace sida {
namespace {

// Column `column` of one panel, from one row of the checkpoint's (n, k) matrix.

void pack_f32(const float* source, size_t k, size_t column, std::byte* panel) {
  auto* target = reinterpret_cast<float*>(panel);
  for (size_t i = 0; i < k; ++i) target[i * kPanelColumns + column] = source[i];
}

void pack_bf16(const float* source, size_t k, size_t column, std::byte* panel) {
  auto* target = reinterpret_cast<uint16_t*>(panel);
  for (size_t i = 0; i < k; ++i) target[i / 2 * 64 + column * 2 + i % 2] = f32_to_bf16(source[i]);
}

void pack_int8(const float* source, size_t k, size_t column, int8_t* codes, std::byte* panel) {
  std::byte* after = panel + code_bytes(k, WeightType::kInt8);
  reinterpret_cast<float*>(after)[column] = quantize_int8(source, k, codes);
  int32_t sum = 0;
  for (size_t i = 0; i < k; ++i) {
    panel[i / 4 * kPanelStepBytes + column * 4 + i % 4] = static_cast<std::byte>(codes[i]);
    sum += codes[i];
  }
  reinterpret_cast<int32_t*>(after)[kPanelColumns + column] = sum;
}

}  // namespace

uint64_t panel_bytes(size_t k, WeightFormat format) { return panel_stride(k, format); }

uint64_t panel_matrix_bytes(size_t n, size_t k, WeightFormat format) {
  return (n + kPanelColumns - 1) / kPanelColumns * panel_bytes(k, format);
}

void pack_panels(const float* weight, size_t n, size_t k, WeightFormat format, std::byte* out) {
  if (only_copied(format.type)) {
    throw Error("internal", std::string(weight_type_name(format.type)) + " is not quantized. This is a bug.");
  }
  if (format == kBf16cFormat) {
    const auto crowded = pack_coded_panels(weight, n, k, out);
    if (crowded) throw Error("invalid_request", crowded->text(k));
    return;
  }
  const size_t stride = panel_stride(k, format);
  const bool groups = grouped(format.type);
  std::memset(out, 0, panel_matrix_bytes(n, k, format));
  std::vector<int8_t> codes(format.type == WeightType::kInt8 ? k : 0);
  GroupedRow grouped_row(groups ? k : 0, groups ? format : kQ8_0Format);
  for (size_t row = 0; row < n; ++row) {
    std::byte* panel = out + row / kPanelColumns * stride;
    const size_t column = row % kPanelColumns;
    const float* source = weight + row * k;
    switch (format.type) {
      case WeightType::kF32:
        pack_f32(source, k, column, panel);
        break;
      case WeightType::kBf16:
        pack_bf16(source, k, column, panel);
        break;
      case WeightType::kInt8:
        pack_int8(source, k, column, codes.data(), panel);
        break;
      default:
        grouped_row.quantize(source);
        grouped_row.put(column, panel);
        break;
    }
  }
  if (!groups) return;
  grouped_row.clear();
  for (size_t row = n; row % kPanelColumns != 0; ++row) {
    grouped_row.put(row % kPanelColumns, out + row / kPanelColumns * stride);
  }
}

void read_panel_row(const PanelMatrix& matrix, size_t row, float* out) {
  const size_t k = matrix.k, column = row % kPanelColumns;
  const std::byte* panel = matrix.data + row / kPanelColumns * panel_stride(k, matrix.format);
  switch (matrix.format.type) {
    case WeightType::kF32:
      for (size_t i = 0; i < k; ++i) out[i] = reinterpret_cast<const float*>(panel)[i * kPanelColumns + column];
      return;
    case WeightType::kBf16: {
      const auto* pairs = reinterpret_cast<const uint16_t*>(panel);
      for (size_t i = 0; i < k; ++i) out[i] = bf16_to_f32(pairs[i / 2 * 64 + column * 2 + i % 2]);
      return;
    }
    case WeightType::kBf16c:
      return read_coded_column(panel, k, column, out);
    case WeightType::kInt8: {
      const float scale = reinterpret_cast<const float*>(panel + code_bytes(k, WeightType::kInt8))[column];
      for (size_t i = 0; i < k; ++i) {
        const auto code = static_cast<int8_t>(panel[i / 4 * kPanelStepBytes + column * 4 + i % 4]);
        out[i] = static_cast<float>(code) * scale;
      }
      return;
    }
    default: {
      GroupedRow taken(k, matrix.format);
      taken.take(column, panel);
      for (size_t i = 0; i < k; ++i) out[i] = taken.weight(i);
      return;
    }
  }
}

}  // namespace sida
