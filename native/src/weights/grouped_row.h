#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/panel_layout.h"

namespace sida {

/// One row of a matrix of a grouped type, taken apart: what quantizers make, blocks of files hold and panels store.
struct GroupedRow {
  GroupedRow(size_t k, WeightFormat format);

  WeightFormat format;
  std::vector<uint8_t> codes;    ///< (k): unsigned as they are stored, of 4 or 6 bits; the two's complement of 8
  std::vector<uint16_t> scales;  ///< (groups): the scale of a group; of q4_k s and m, of q6_k two s, one a byte
  std::vector<uint16_t> supers;  ///< of q4_k d and dmin for 256 inputs, of q6_k d

  size_t k() const { return codes.size(); }
  /// Input `i` as f32.
  float weight(size_t i) const;

  /// All weights are 0.
  void clear();
  /// Rounds k weights.
  void quantize(const float* weight);
  /// Stores the row as a panel's column, whose bytes were 0.
  void put(size_t column, std::byte* panel) const;
  /// Takes the row from a panel's column.
  void take(size_t column, const std::byte* panel);
};

}  // namespace sida
