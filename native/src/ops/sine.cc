#include "ops/sine.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace sida {
namespace {

// π/2 in two parts. The first has 33 bits, so that its product with a number of turns below 2^20 is exact.
constexpr double kQuarterHigh = std::bit_cast<double>(uint64_t{0x3ff921fb54400000});
constexpr double kQuarterLow = std::bit_cast<double>(uint64_t{0x3dd0b4611a626331});
constexpr double kInverseQuarter = std::bit_cast<double>(uint64_t{0x3fe45f306dc9c883});

/// `first` · (1 - x²/(n·(n+1)) · (1 - x²/((n+2)·(n+3)) · …)): Taylor's series, to an error below 2^-60 for |x| <= π/4.
double series(double first, double squared, int n) {
  double sum = 1;
  for (int i = n + 16; i >= n; i -= 2) sum = 1 - squared / (i * (i + 1)) * sum;
  return first * sum;
}

}  // namespace

Turn turn(double angle) {
  const double quarters = std::floor(angle * kInverseQuarter + 0.5);
  const double rest = angle - quarters * kQuarterHigh - quarters * kQuarterLow;
  const double cosine = series(1, rest * rest, 1), sine = series(rest, rest * rest, 2);
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

}  // namespace sida
