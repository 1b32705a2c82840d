#pragma once

#include <cstddef>
#include <vector>

#include "spec/spec.h"

namespace sida {

/// T5's bucket of a relative position (key − query), as transformers computes it, in float32.
int relative_position_bucket(int relative_position, bool bidirectional, int buckets, int max_distance);

/// Position bias of one stack: head(h)[key − query] for distances within (−positions, positions), followed by 32 floats
/// that whole-vector reads may touch.
class PositionBias {
 public:
  static size_t floats(size_t heads, size_t positions);

  /// Fills `memory` (floats(heads, positions)) from `weight` (bias.buckets, heads).
  PositionBias(const RelativeBias& bias, size_t heads, const float* weight, bool bidirectional, size_t positions,
               float* memory);

  /// Points at distance 0.
  const float* head(size_t head) const { return memory_ + head * stride_ + positions_; }
  /// Floats from head to head.
  size_t stride() const { return stride_; }

 private:
  float* memory_;
  size_t positions_;
  size_t stride_;
};

}  // namespace sida
