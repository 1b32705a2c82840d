// The tiles of AMX and what they do for one block of a product. See float_kernels_impl.h.
//
// The codes of a panel, [steps][32][4 bytes], are what the instructions take as their second matrix: a row of 16
// columns with 4 bytes of inputs each. Tiles 0 to 3 hold the sums of two times 16 rows and two times 16 columns, 4 and
// 5 activations, 6 and 7 weights.

#pragma once

#include <immintrin.h>

#include "ops/cpu/kernels.h"

namespace sida {
namespace {

constexpr size_t kTileRows = 16;
constexpr size_t kBlockRows = 2 * kTileRows;

/// What LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// Shapes of the tiles for a block of `rows`, of which the second tile has what the first leaves, and for rows of
/// activations of `bytes`. Clears all tiles.
void shape_tiles(size_t rows, size_t bytes) {
  const size_t upper = rows < kTileRows ? rows : kTileRows, lower = rows - upper;
  TileShapes shapes;
  for (size_t tile = 0; tile < 8; ++tile) {
    const bool below = tile == 2 || tile == 3 || tile == 5;
    const size_t count = tile >= 6 ? bytes / 4 : below ? lower : upper;
    // A tile without rows would be invalid; nothing uses it.
    shapes.rows[tile] = static_cast<uint8_t>(count == 0 ? 1 : count);
    shapes.row_bytes[tile] = static_cast<uint16_t>(tile == 4 || tile == 5 ? bytes : 64);
  }
  // GCC's intrinsic tells the compiler of the first eight bytes alone.
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

// What the tiles of a block do; kTwo: it has rows below the first 16.

constexpr size_t kSumBytes = kPanelColumns * 4;

template <bool kTwo>
void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwo) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

/// `sums`: (rows, kPanelColumns), integers or floats.
template <bool kTwo, class Number>
void store_sums(Number* sums) {
  _tile_stored(0, sums, kSumBytes);
  _tile_stored(1, sums + kPanelColumns / 2, kSumBytes);
  if constexpr (!kTwo) return;
  Number* below = sums + kTileRows * kPanelColumns;
  _tile_stored(2, below, kSumBytes);
  _tile_stored(3, below + kPanelColumns / 2, kSumBytes);
}

}  // namespace
}  // namespace sida
