#pragma once

namespace sida {

/// Moves `value` towards the median of what is seen.
inline double follow(double value, double seen, double step) { return seen > value ? value * step : value / step; }

/// How far one observation moves a speed of computing.
inline constexpr double kWorkStep = 1.1;

}  // namespace sida
