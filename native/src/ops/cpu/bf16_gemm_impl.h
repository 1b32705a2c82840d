// The GEMM of bf16 weights with activations rounded to bf16. See float_kernels_impl.h.
//
// What one output element is, in every instruction set of x86-64 and for any number of rows: for each 32 inputs,
// ascending, a chain of fused multiply-adds from 0 over the even ones and one over the odd ones, whose sum is added to
// that of the inputs before. Numbers below 2^-126 count as zero, as operands and as results. This is the arithmetic of
// TDPBF16PS (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).

#pragma once

#include "ops/cpu/coded_panels_impl.h"
#include "ops/cpu/rounded_rows_impl.h"
#include "ops/cpu/tile_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sida {
namespace {

/// Steps of a panel, of two inputs each, whose products are summed before they are added.
constexpr size_t kBf16Steps = 16;

/// While it lives, this thread's arithmetic takes numbers below 2^-126 as zero. Other processors than x86-64, where no
/// engine takes bf16 activations, keep them.
class DenormalsAreZero {
 public:
  DenormalsAreZero() {
#if defined(__x86_64__)
    _mm_setcsr(before_ | kFlushResults | kFlushOperands);
#endif
  }
  ~DenormalsAreZero() {
#if defined(__x86_64__)
    _mm_setcsr(before_);
#endif
  }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlushResults = 1u << 15, kFlushOperands = 1u << 6;
  unsigned before_ = _mm_getcsr();
#endif
};

inline V broadcast_bf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, 4);
  return V::set(wide);
}

/// sums += x (kRows, 2 · steps) · the panel's weights of these inputs; x with a stride in bytes.
template <size_t kRows>
[[gnu::always_inline]] inline void add_bf16_steps(const uint8_t* x, size_t stride, const std::byte* panel, size_t steps,
                                                  V (&sums)[kRows][2]) {
  V even[kRows][2], odd[kRows][2];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) even[r][0] = even[r][1] = odd[r][0] = odd[r][1] = V::set(0.0f);
  for (size_t step = 0; step < steps; ++step, panel += kPanelStepBytes) {
    prefetch_step(panel);
    V first[2], second[2];
    V::load_bf16_pairs(panel, first[0], second[0]);
    V::load_bf16_pairs(panel + kPanelStepBytes / 2, first[1], second[1]);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      uint16_t pair[2];
      std::memcpy(pair, x + r * stride + step * sizeof pair, sizeof pair);
      const V a = broadcast_bf16(pair[0]), b = broadcast_bf16(pair[1]);
#pragma GCC unroll 2
      for (size_t c = 0; c < 2; ++c) {
        even[r][c] = V::fma(a, first[c], even[r][c]);
        odd[r][c] = V::fma(b, second[c], odd[r][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < 2; ++c) sums[r][c] = V::add(sums[r][c], V::add(even[r][c], odd[r][c]));
  }
}

template <class Steps, size_t kRows>
void bf16_tile(const GemmTask& t, const uint8_t* x, size_t stride, const std::byte* panel, float* y, size_t columns) {
  V sums[kRows][2];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = V::set(0.0f);
  static_assert(kDecodedSteps == kBf16Steps);
  Steps weights(panel, t.k);
  size_t steps = (t.k + 1) / 2;
  for (; steps >= kBf16Steps; steps -= kBf16Steps) {
    add_bf16_steps<kRows>(x, stride, weights.next(), kBf16Steps, sums);
    x += kBf16Steps * 2 * sizeof(uint16_t);
  }
  if (steps > 0) add_bf16_steps<kRows>(x, stride, weights.next(), steps, sums);
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < 2; ++c) store_columns(t.epilogue, t.bias, sums[r][c], y + r * t.y_stride, c, columns);
  }
}

// The compiler must not move arithmetic across the change of the mode.
template <class Steps>
[[gnu::noinline]] void bf16_panels(const GemmTask& t, const RoundedRows& x) {
  run_tiles<kBf16TileRows>(
      t, [&]<size_t kRows>(const GemmTask& task, size_t row, const std::byte* panel, float* y, size_t columns) {
        bf16_tile<Steps, kRows>(task, x.codes + row * x.stride, x.stride, panel, y, columns);
      });
}

void gemm_bf16(const GemmTask& t, const RoundedRows& x) {
  const DenormalsAreZero mode;
  if (t.format == kBf16Format) return bf16_panels<PlainSteps>(t, x);
  if (t.rows <= kBf16TileRows) return bf16_panels<DecodedSteps>(t, x);
  decoded_panels(t, [&](const GemmTask& task) { bf16_panels<PlainSteps>(task, x); });
}

}  // namespace
}  // namespace sida
