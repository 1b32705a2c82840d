#include "ops/panels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/dtype.h"
#include "ops/quantize.h"

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

std::byte& int4_byte(std::byte* group, size_t input, size_t column) {
  return group[input / 8 * kPanelStepBytes + column * 4 + input % 4];
}

void pack_int4(const float* source, size_t k, size_t column, size_t group, int8_t* codes, std::byte* panel) {
  for (size_t begin = 0; begin < k; begin += group) {
    const size_t inputs = std::min(group, k - begin);
    std::byte* codes_out = panel + int4_group_offset(begin, group);
    std::byte* scales = codes_out + code_bytes(inputs, WeightType::kInt4);
    reinterpret_cast<uint16_t*>(scales)[column] = quantize_int4(source + begin, inputs, codes);
    for (size_t i = 0; i < inputs; ++i) {
      // The nibble stores code + 8.
      const auto change = static_cast<unsigned>(8 ^ (codes[i] + 8)) << (i % 8 < 4 ? 0 : 4);
      int4_byte(codes_out, i, column) ^= static_cast<std::byte>(change);
    }
  }
}

void pack_mxfp4(const float* source, size_t k, size_t column, size_t group, uint8_t* nibbles, std::byte* panel) {
  for (size_t begin = 0; begin < k; begin += group) {
    const size_t inputs = std::min(group, k - begin);
    std::byte* codes_out = panel + int4_group_offset(begin, group);
    std::byte* scales = codes_out + code_bytes(inputs, WeightType::kMxfp4);
    reinterpret_cast<uint16_t*>(scales)[column] = quantize_mxfp4(source + begin, inputs, nibbles);
    for (size_t i = 0; i < inputs; ++i) {
      int4_byte(codes_out, i, column) |= static_cast<std::byte>(nibbles[i] << (i % 8 < 4 ? 0 : 4));
    }
  }
}

void clear_int4(size_t k, size_t group, std::byte* panel) {
  for (size_t begin = 0; begin < k; begin += group) {
    const size_t bytes = code_bytes(std::min(group, k - begin), WeightType::kInt4);
    std::memset(panel + int4_group_offset(begin, group), 0x88, bytes);
  }
}

/// A weight of 4 bits.
float read_nibble(const std::byte* panel, size_t k, WeightFormat format, size_t input, size_t column) {
  const size_t group = format.group;
  const size_t begin = input - input % group;
  const std::byte* codes = panel + int4_group_offset(begin, group);
  const std::byte* scales = codes + code_bytes(std::min(group, k - begin), WeightType::kInt4);
  const auto byte = static_cast<int>(codes[input % group / 8 * kPanelStepBytes + column * 4 + input % 4]);
  const int nibble = input % 8 < 4 ? byte & 15 : byte >> 4;
  const int code = format.type == WeightType::kMxfp4 ? kMxfp4Values[nibble] : nibble - 8;
  return static_cast<float>(code) * bf16_to_f32(reinterpret_cast<const uint16_t*>(scales)[column]);
}

}  // namespace

uint64_t panel_bytes(size_t k, WeightFormat format) { return panel_stride(k, format); }

uint64_t panel_matrix_bytes(size_t n, size_t k, WeightFormat format) {
  return (n + kPanelColumns - 1) / kPanelColumns * panel_bytes(k, format);
}

void pack_panels(const float* weight, size_t n, size_t k, WeightFormat format, std::byte* out) {
  const size_t stride = panel_stride(k, format);
  std::vector<int8_t> codes(quantized(format) ? k : 0);
  std::vector<uint8_t> nibbles(format.type == WeightType::kMxfp4 ? k : 0);
  for (size_t row = 0; row < n; ++row) {
    std::byte* panel = out + row / kPanelColumns * stride;
    const size_t column = row % kPanelColumns;
    const float* source = weight + row * k;
    if (column == 0) {
      std::memset(panel, 0, stride);
      if (format.type == WeightType::kInt4) clear_int4(k, format.group, panel);
    }
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
      case WeightType::kInt4:
        pack_int4(source, k, column, format.group, codes.data(), panel);
        break;
      case WeightType::kMxfp4:
        pack_mxfp4(source, k, column, format.group, nibbles.data(), panel);
        break;
    }
  }
}

void read_panel_row(const PanelMatrix& matrix, size_t row, float* out) {
  const std::byte* panel = matrix.data + row / kPanelColumns * panel_stride(matrix.k, matrix.format);
  const size_t column = row % kPanelColumns;
  for (size_t i = 0; i < matrix.k; ++i) {
    switch (matrix.format.type) {
      case WeightType::kF32:
        out[i] = reinterpret_cast<const float*>(panel)[i * kPanelColumns + column];
        break;
      case WeightType::kBf16:
        out[i] = bf16_to_f32(reinterpret_cast<const uint16_t*>(panel)[i / 2 * 64 + column * 2 + i % 2]);
        break;
      case WeightType::kInt8: {
        const auto* scales = reinterpret_cast<const float*>(panel + code_bytes(matrix.k, WeightType::kInt8));
        const auto code = static_cast<int8_t>(panel[i / 4 * kPanelStepBytes + column * 4 + i % 4]);
        out[i] = static_cast<float>(code) * scales[column];
        break;
      }
      case WeightType::kInt4:
      case WeightType::kMxfp4:
        out[i] = read_nibble(panel, matrix.k, matrix.format, i, column);
        break;
    }
  }
}

}  // namespace sida
