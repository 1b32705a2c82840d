// The methods of exp and log and their constants are those of fdlibm:
//
// ====================================================
// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//
// Developed at SunSoft, a Sun Microsystems, Inc. business.
// Permission to use, copy, modify, and distribute this
// software is freely granted, provided that this notice
// is preserved.
// ====================================================

#include "core/portable_math.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/exp_steps.h"

namespace sida {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Beyond these, exp is infinite or 0.
constexpr double kLargestExp = 0x1.62e42fefa39efp+9;
constexpr double kSmallestExp = -0x1.74910d52d3051p+9;

// For -1022 <= k <= 1023.
inline double power_of_two(int k) { return double_of(static_cast<uint64_t>(k + 1023) << 52); }

}  // namespace

double portable_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > kLargestExp) return kInfinity;
  if (x < kSmallestExp) return 0;
  const double size = std::fabs(x);
  if (size < kTinyExp) return 1 + x;
  // The method is one bit off at this value. V8 makes the same exception.
  if (x == 1) return 0x1.5bf0a8b145769p+1;
  const int k = size < kHalfLn2 ? 0 : static_cast<int>(kInverseLn2 * x + (x < 0 ? -0.5 : 0.5));
  const double rest = exp_of_rest(x - k * kLn2High, k * kLn2Low);
  if (k > 1023) return rest * 2 * power_of_two(1023);
  if (k < -1021) return rest * power_of_two(k + 1000) * power_of_two(-1000);
  return rest * power_of_two(k);
}

double portable_log(double x) {
  constexpr double l1 = 0x1.5555555555593p-1;
  constexpr double l2 = 0x1.999999997fa04p-2;
  constexpr double l3 = 0x1.2492494229359p-2;
  constexpr double l4 = 0x1.c71c51d8e78afp-3;
  constexpr double l5 = 0x1.7466496cb03dep-3;
  constexpr double l6 = 0x1.39a09d078c69fp-3;
  constexpr double l7 = 0x1.2f112df3e5244p-3;

  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    exponent = -54;
    x *= 0x1p54;
  }

  // x = 2^k (1 + f) with √½ < 1 + f < √2
  const uint64_t bits = bits_of(x);
  const int32_t fraction = static_cast<int32_t>(bits >> 32) & 0xfffff;
  const int32_t above_root = (fraction + 0x95f64) & 0x100000;
  exponent += static_cast<int>(bits >> 52) - 1023 + (above_root >> 20);
  const uint64_t high = static_cast<uint32_t>(fraction | (above_root ^ 0x3ff00000));
  const double f = double_of(high << 32 | (bits & 0xffffffff)) - 1;
  const double k = exponent;

  if ((0xfffff & (2 + fraction)) < 3) {  // |f| < 2^-20
    if (f == 0) return k * kLn2High + k * kLn2Low;
    const double r = f * f * (0.5 - 0.33333333333333333 * f);
    return exponent == 0 ? f - r : k * kLn2High - ((r - k * kLn2Low) - f);
  }
  const double s = f / (2 + f);
  const double z = s * s;
  const double w = z * z;
  const double even = w * (l2 + w * (l4 + w * l6));
  const double odd = z * (l1 + w * (l3 + w * (l5 + w * l7)));
  const double r = odd + even;
  if (fraction >= 0x6147a && fraction <= 0x6b851) {
    const double half_square = 0.5 * f * f;
    if (exponent == 0) return f - (half_square - s * (half_square + r));
    return k * kLn2High - ((half_square - (s * (half_square + r) + k * kLn2Low)) - f);
  }
  if (exponent == 0) return f - s * (f - r);
  return k * kLn2High - ((s * (f - r) - k * kLn2Low) - f);
}

}  // namespace sida
