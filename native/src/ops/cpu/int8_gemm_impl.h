// The GEMM with 8-bit activations. See kernels_impl.h for `V`, `I` and why everything is in an unnamed
// namespace.
//
// What one output element is, in every instruction set and for any number of rows. int8: the exact sum of
// activation code · weight code, rounded to f32, times the channel's scale, times the row's. int4 and q4_0: a chain of
// fused multiply-adds over the groups, ascending, of the group's exact sum and its scale; then times the
// row's.

#pragma once

#include <cstring>
#include <limits>

#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

void quantize_row(const float* x, size_t k, size_t padded, unsigned zero, uint8_t* codes, float* scale) {
  // As integers, magnitudes compare as the floats do, and a NaN is larger than all of them.
  uint32_t top_bits = 0;
  for (size_t i = 0; i < k; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    top_bits = bits > top_bits ? bits : top_bits;
  }
  float top;
  std::memcpy(&top, &top_bits, 4);
  const bool finite = top_bits < 0x7f800000u;
  // Below this 127 / top overflows; such a row counts as zero.
  if (!finite || top < 1e-36f) {
    std::memset(codes, static_cast<int>(zero), padded);
    *scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const float inverse = 127.0f / top;
  for (size_t i = 0; i < k; ++i) {
    // Adding 1.5 · 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
    const float shifted = x[i] * inverse + 12582912.0f;
    uint32_t bits;
    std::memcpy(&bits, &shifted, 4);
    codes[i] = static_cast<uint8_t>(bits + zero);
  }
  std::memset(codes + k, static_cast<int>(zero), padded - k);
  *scale = top / 127.0f;
}

void quantize_rows(const QuantizeTask& t, const QuantizedRows& out) {
  const unsigned zero = t.format.type == WeightType::kInt8 ? 128 : 0;
  for (size_t r = 0; r < t.rows; ++r) {
    uint8_t* codes = out.codes + r * out.stride;
    quantize_row(t.x + r * t.x_stride, t.k, (t.k + 7) / 8 * 8, zero, codes, out.scales + r);
    for (size_t g = 0; g < out.groups; ++g) {
      const size_t begin = g * t.format.group;
      const size_t end = t.k - begin < t.format.group ? t.k : begin + t.format.group;
      int32_t sum = 0;
      for (size_t i = begin; i < end; ++i) sum += static_cast<int8_t>(codes[i]);
      out.sums[r * out.groups + g] = -8 * sum;
    }
  }
}

I broadcast4(const uint8_t* p) {
  int32_t word;
  std::memcpy(&word, p, 4);
  return I::set(word);
}

/// Behind the codes of an int8 panel: what turns its exact sums into outputs.
struct Int8Scales {
  V scale[2];
  /// The activations' codes are 128 too large.
  I excess[2];

  explicit Int8Scales(const std::byte* behind_codes)
      : scale{V::load(reinterpret_cast<const float*>(behind_codes)),
              V::load(reinterpret_cast<const float*>(behind_codes) + 16)},
        excess{I::times_128(I::load(behind_codes + 128)), I::times_128(I::load(behind_codes + 192))} {}

  V output(I sum, size_t half, V row_scale) const {
    return V::mul(V::mul(I::to_float(I::sub(sum, excess[half])), scale[half]), row_scale);
  }
};

// The tiles hold their sums in arrays that must become registers, so the loops are unrolled by hand.

struct Int8Tile {
  template <size_t kRows>
  static void run(const GemmTask& t, const QuantizedRows& x, size_t row, const std::byte* panel, float* y,
                  size_t columns) {
    RowPointers<uint8_t, kRows> codes(x.codes + row * x.stride, x.stride);
    I acc[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = I::set(0);
    const std::byte* end = panel + code_bytes(t.k, WeightType::kInt8);
    for (const std::byte* p = panel; p != end; p += kPanelStepBytes) {
      prefetch_step(p);
      const I w0 = I::load(p), w1 = I::load(p + 64);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const I a = broadcast4(codes.row(r));
        acc[r][0] = I::dot(acc[r][0], a, w0);
        acc[r][1] = I::dot(acc[r][1], a, w1);
      }
      codes.advance(4);
    }
    const Int8Scales scales(end);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const V row_scale = V::set(x.scales[row + r]);
#pragma GCC unroll 2
      for (size_t c = 0; c < 2; ++c) {
        store_columns(t.epilogue, t.bias, scales.output(acc[r][c], c, row_scale), y + r * t.y_stride, c, columns);
      }
    }
  }
};

template <WeightType kType>
struct Int4Tile {
  template <size_t kRows>
  static void run(const GemmTask& t, const QuantizedRows& x, size_t row, const std::byte* panel, float* y,
                  size_t columns) {
    RowPointers<uint8_t, kRows> codes(x.codes + row * x.stride, x.stride);
    const int32_t* sums = x.sums + row * x.groups;
    V total[kRows][2];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) total[r][0] = total[r][1] = V::set(0.0f);
    const std::byte* p = panel;
    for (size_t g = 0; g < x.groups; ++g) {
      const size_t begin = g * t.format.group;
      const size_t inputs = t.k - begin < t.format.group ? t.k - begin : t.format.group;
      I acc[kRows][2];
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = I::set(sums[r * x.groups + g]);
      const std::byte* end = p + code_bytes(inputs, WeightType::kInt4);
      for (; p != end; p += kPanelStepBytes) {
        prefetch_step(p);
        const I w0 = I::load(p), w1 = I::load(p + 64);
        const I low0 = I::low_nibbles(w0), low1 = I::low_nibbles(w1);
        const I high0 = I::high_nibbles(w0), high1 = I::high_nibbles(w1);
#pragma GCC unroll 16
        for (size_t r = 0; r < kRows; ++r) {
          const I codes0 = broadcast4(codes.row(r)), codes4 = broadcast4(codes.row(r) + 4);
          acc[r][0] = I::dot(acc[r][0], low0, codes0);
          acc[r][1] = I::dot(acc[r][1], low1, codes0);
          acc[r][0] = I::dot(acc[r][0], high0, codes4);
          acc[r][1] = I::dot(acc[r][1], high1, codes4);
        }
        codes.advance(8);
      }
      const GroupScales scales = kType == WeightType::kInt4 ? GroupScales::bf16(p) : GroupScales::f16(p);
      p += kGroupScaleBytes;
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        total[r][0] = V::fma(I::to_float(acc[r][0]), scales.of[0], total[r][0]);
        total[r][1] = V::fma(I::to_float(acc[r][1]), scales.of[1], total[r][1]);
      }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const V row_scale = V::set(x.scales[row + r]);
#pragma GCC unroll 2
      for (size_t c = 0; c < 2; ++c) {
        store_columns(t.epilogue, t.bias, V::mul(total[r][c], row_scale), y + r * t.y_stride, c, columns);
      }
    }
  }
};

template <class Tile, size_t kMax>
void int8_panels(const GemmTask& t, const QuantizedRows& x) {
  run_tiles<kMax>(
      t, [&]<size_t kRows>(const GemmTask& task, size_t row, const std::byte* panel, float* y, size_t columns) {
        Tile::template run<kRows>(task, x, row, panel, y, columns);
      });
}

void gemm_int8(const GemmTask& t, const QuantizedRows& x) {
  if (t.format.type == WeightType::kInt8) return int8_panels<Int8Tile, 12>(t, x);
  if (t.format.type == WeightType::kQ4_0) return int8_panels<Int4Tile<WeightType::kQ4_0>, 6>(t, x);
  int8_panels<Int4Tile<WeightType::kInt4>, 6>(t, x);
}

}  // namespace
}  // namespace sida
