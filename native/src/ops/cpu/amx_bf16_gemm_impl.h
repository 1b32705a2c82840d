// The GEMM with bf16 activations on the tiles of AMX. See float_kernels_impl.h.

#pragma once

#include "ops/cpu/amx_tiles_impl.h"
#include "ops/cpu/bf16_gemm_impl.h"

namespace sida {
namespace {

/// Bytes of a row of one tile of activations.
constexpr size_t kBf16TileBytes = kBf16Steps * 2 * sizeof(uint16_t);

/// A block of `rows` rows of x, with a stride in bytes, and one panel.
template <class Steps, bool kTwo>
void bf16_block(const GemmTask& t, const uint8_t* x, size_t stride, size_t rows, const std::byte* panel, float* y,
                size_t columns) {
  alignas(64) float sums[kBlockRows * kPanelColumns];
  Steps weights(panel, t.k);
  size_t steps = (t.k + 1) / 2;
  clear_sums<kTwo>();
  for (; steps >= kBf16Steps; steps -= kBf16Steps) {
    const std::byte* next = weights.next();
    for (size_t step = 0; step < kBf16Steps; ++step) prefetch_step(next + step * kPanelStepBytes);
    _tile_loadd(4, x, stride);
    _tile_loadd(6, next, kPanelStepBytes);
    _tile_loadd(7, next + kPanelStepBytes / 2, kPanelStepBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, x + kTileRows * stride, stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    x += kBf16TileBytes;
  }
  store_sums<kTwo>(sums);
  if (steps > 0) {
    const std::byte* next = weights.next();
    for (size_t r = 0; r < rows; ++r) {
      float* at = sums + r * kPanelColumns;
      V row[1][2] = {{V::load(at), V::load(at + kPanelColumns / 2)}};
      add_bf16_steps<1>(x + r * stride, stride, next, steps, row);
      for (size_t c = 0; c < 2; ++c) V::store(at + c * kPanelColumns / 2, row[0][c]);
    }
  }
  store_block(
      t, rows, [&](size_t r, size_t c) { return V::load(sums + r * kPanelColumns + c * kPanelColumns / 2); }, y,
      columns);
}

template <class Steps>
[[gnu::noinline]] void bf16_blocks(const GemmTask& t, const RoundedRows& x) {
  size_t shaped = 0;
  run_blocks<kBlockRows>(
      t, [&](const GemmTask& task, size_t row, size_t rows, const std::byte* panel, float* y, size_t columns) {
        if (rows != shaped) shape_tiles(shaped = rows, kBf16TileBytes);
        const uint8_t* from = x.codes + row * x.stride;
        const auto block = rows > kTileRows ? bf16_block<Steps, true> : bf16_block<Steps, false>;
        block(task, from, x.stride, rows, panel, y, columns);
      });
  _tile_release();
}

void gemm_bf16_tiles(const GemmTask& t, const RoundedRows& x) {
  const DenormalsAreZero mode;
  if (t.format == kBf16Format) return bf16_blocks<PlainSteps>(t, x);
  if (t.rows <= 2 * kBlockRows) return bf16_blocks<DecodedSteps>(t, x);
  decoded_panels(t, [&](const GemmTask& task) { bf16_blocks<PlainSteps>(task, x); });
}

}  // namespace
}  // namespace sida
