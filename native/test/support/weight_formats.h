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
                                            kBf16cFormat,
                                            {WeightType::kInt8, 0},
                                            {WeightType::kInt4, 32},
                                            {WeightType::kInt4, 64},
                                            {WeightType::kInt4, 128},
                                            kMxfp4Format,
                                            kQ8_0Format,
                                            kQ4_0Format};

/// Types that sida only copies.
inline constexpr Dtype kCopiedTypes[] = {Dtype::kQ4_K,   Dtype::kQ6_K,  Dtype::kQ4_1, Dtype::kQ5_0,   Dtype::kQ5_1,
                                         Dtype::kQ5_K,   Dtype::kQ3_K,  Dtype::kQ2_K, Dtype::kIq4Nl,  Dtype::kIq4Xs,
                                         Dtype::kIq2Xxs, Dtype::kIq2Xs, Dtype::kIq2S, Dtype::kIq3Xxs, Dtype::kIq3S};

/// The first type whose blocks have the format.
inline Dtype dtype_of(WeightFormat format) {
  return *std::ranges::find_if(kCopiedTypes, [&](Dtype dtype) { return format_of_blocks(dtype) == format; });
}

/// All types.
inline std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> all(std::begin(kFormats), std::end(kFormats));
  for (const Dtype dtype : kCopiedTypes) {
    if (dtype == dtype_of(format_of_blocks(dtype))) all.push_back(format_of_blocks(dtype));
  }
  return all;
}

/// The next number of inputs that a matrix of the type can have.
inline size_t inputs_for(WeightFormat format, size_t k) {
  const size_t block = block_inputs(format.type);
  return (k + block - 1) / block * block;
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
    if (dtype == Dtype::kQ4_1) half(0, 8), half(2, 11);
    if (dtype == Dtype::kQ5_0) half(0, 8);
    if (dtype == Dtype::kQ5_1) half(0, 7), half(2, 11);
    if (dtype == Dtype::kQ5_K) half(0, 3), half(2, 5);
    if (dtype == Dtype::kQ3_K) half(108, 5);
    if (dtype == Dtype::kQ2_K) half(80, 7), half(82, 8);
    if (dtype == Dtype::kIq4Nl) half(0, 5);
    if (dtype == Dtype::kIq4Xs) half(0, 1);
    if (dtype == Dtype::kIq2Xxs || dtype == Dtype::kIq2Xs || dtype == Dtype::kIq2S) half(0, 5);
    if (dtype == Dtype::kIq3Xxs || dtype == Dtype::kIq3S) half(0, 4);
  }
  return rows;
}

/// A packed (n, k) matrix of any type.
inline std::vector<std::byte> random_panels(WeightFormat format, size_t n, size_t k, unsigned seed) {
  std::vector<std::byte> out(panel_matrix_bytes(n, k, format));
  if (only_copied(format.type)) {
    const Dtype dtype = dtype_of(format);
    pack_blocks(dtype, random_blocks(dtype, n, k, seed).data(), n, k, out.data());
  } else {
    std::vector<float> weights = random_floats(n * k, seed);
    // Escapes.
    for (size_t row = 0; format == kBf16cFormat && row < n; row += 16) weights[row * k + row * 37 % k] *= 0x1p-40f;
    pack_panels(weights.data(), n, k, format, out.data());
  }
  return out;
}

}  // namespace sida
