#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "support/random_floats.h"
#include "weights/panels.h"
#include "weights/weight_blocks.h"

namespace sida {

/// All that a matrix of any k can be packed in.
inline constexpr WeightFormat kFormats[] = {kF32Format,
                                            kBf16Format,
                                            {WeightType::kInt8, 0},
                                            {WeightType::kInt4, 32},
                                            {WeightType::kInt4, 64},
                                            {WeightType::kInt4, 128},
                                            kMxfp4Format,
                                            kQ8_0Format,
                                            kQ4_0Format};

/// All types.
inline std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> all(std::begin(kFormats), std::end(kFormats));
  all.insert(all.end(), {kQ4_KFormat, kQ6_KFormat});
  return all;
}

/// The next number of inputs that a matrix of the type can have.
inline size_t inputs_for(WeightFormat format, size_t k) {
  return in_super_blocks(format.type) ? (k + kSuperInputs - 1) / kSuperInputs * kSuperInputs : k;
}

/// Blocks of (n, k) weights, most of them below 1.
inline std::vector<std::byte> random_blocks(Dtype dtype, size_t n, size_t k, unsigned seed) {
  const DtypeBlock shape = dtype_block(dtype);
  std::vector<std::byte> rows(n * k / shape.elements * shape.bytes);
  std::mt19937 random(seed);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  for (std::byte* block = rows.data(); block != rows.data() + rows.size(); block += shape.bytes) {
    // Smaller powers of two where further factors are larger.
    const auto half = [&](size_t at, unsigned exponent) {
      const auto bits = static_cast<uint16_t>((random() & 0x83ff) | (exponent + random() % 4) << 10);
      std::memcpy(block + at, &bits, 2);
    };
    if (dtype == Dtype::kGgmlMxfp4) block[0] = static_cast<std::byte>(120 + random() % 5);
    if (dtype == Dtype::kQ8_0) half(0, 5);
    if (dtype == Dtype::kQ4_0) half(0, 9);
    if (dtype == Dtype::kQ4_K) half(0, 4), half(2, 5);
    if (dtype == Dtype::kQ6_K) half(208, 1);
  }
  return rows;
}

/// A packed (n, k) matrix of any type.
inline std::vector<std::byte> random_panels(WeightFormat format, size_t n, size_t k, unsigned seed) {
  std::vector<std::byte> out(panel_matrix_bytes(n, k, format));
  if (in_super_blocks(format.type)) {
    const Dtype dtype = format == kQ4_KFormat ? Dtype::kQ4_K : Dtype::kQ6_K;
    pack_blocks(dtype, random_blocks(dtype, n, k, seed).data(), n, k, out.data());
  } else {
    pack_panels(random_floats(n * k, seed).data(), n, k, format, out.data());
  }
  return out;
}

}  // namespace sida
