#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/panel_layout.h"

namespace sida {

/// One row of a matrix of a grouped type, taken apart: what quantizers make and panels store.
struct GroupedRow {
  GroupedRow(size_t k, WeightFormat format);

  WeightFormat format;
  std::vector<uint8_t> codes;    ///< (k): unsigned as they are stored; the two's complement of 8 bits
  std::vector<uint16_t> scales;  ///< (groups, words): what lies behind a group's codes
  std::vector<uint16_t> supers;  ///< d, and dmin where there are minimums, for 256 inputs

  size_t k() const { return codes.size(); }
  /// Input `i` as f32.
  float weight(size_t i) const;

  /// All weights are 0; of a type that sida quantizes, as quantize() and put().
  void clear();
  /// Rounds k weights.
  void quantize(const float* weight);
  /// Stores the row as a panel's column, whose bytes were 0.
  void put(size_t column, std::byte* panel) const;
  /// Takes the row from a panel's column.
  void take(size_t column, const std::byte* panel);
};

}  // namespace sida
