#pragma once

#include <cstddef>

namespace sida {

/// Features of a token's position in its sequence.
inline constexpr size_t kPositionFeatures = 32;

/// Overwrites out (count, kPositionFeatures) with the features of positions first, first + 1, …: sine and cosine of
/// position / 10000^(i / 16), for i = 0 … 15.
void position_features(size_t first, size_t count, float* out);

}  // namespace sida
