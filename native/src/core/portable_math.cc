// The methods and constants of exp and log are those of fdlibm:
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

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sida {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ln 2 in two parts. The first has 32 bits, so that its product with an exponent is exact.
constexpr double kLn2High = std::bit_cast<double>(uint64_t{0x3fe62e42fee00000});
constexpr double kLn2Low = std::bit_cast<double>(uint64_t{0x3dea39ef35793c76});
constexpr double kInverseLn2 = std::bit_cast<double>(uint64_t{0x3ff71547652b82fe});

// Beyond these, exp is infinite or 0.
constexpr double kLargestExp = std::bit_cast<double>(uint64_t{0x40862e42fefa39ef});
constexpr double kSmallestExp = std::bit_cast<double>(uint64_t{0xc0874910d52d3051});
// fdlibm compares high words only: these are ½ ln 2 and 1½ ln 2 as its comparisons have them.
constexpr double kHalfLn2 = std::bit_cast<double>(uint64_t{0x3fd62e4300000000});
constexpr double kOneAndHalfLn2 = std::bit_cast<double>(uint64_t{0x3ff0a2b200000000});
// Below this, 1 + x is exp(x).
constexpr double kTiny = 0x1p-28;
// From here on 2^k is a normal number.
constexpr double kSmallestNormalExp = -707;

// exp(high - low), |high - low| <= ½ ln 2.
inline double exp_of_rest(double high, double low) {
  constexpr double p1 = std::bit_cast<double>(uint64_t{0x3fc555555555553e});
  constexpr double p2 = std::bit_cast<double>(uint64_t{0xbf66c16c16bebd93});
  constexpr double p3 = std::bit_cast<double>(uint64_t{0x3f11566aaf25de2c});
  constexpr double p4 = std::bit_cast<double>(uint64_t{0xbebbbd41c5d26bf1});
  constexpr double p5 = std::bit_cast<double>(uint64_t{0x3e66376972bea4d0});
  const double r = high - low;
  const double t = r * r;
  const double c = r - t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * p5))));
  return 1 - ((low - (r * c) / (2 - c)) - high);
}

// For -1022 <= k <= 1023.
inline double power_of_two(int k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }

// portable_exp for kSmallestNormalExp <= x <= 0. Selections instead of branches: the compiler takes several x at
// a time.
inline double exp_nonpositive(double x) {
  double k = static_cast<double>(static_cast<int>(kInverseLn2 * x - 0.5));
  k = x > -kOneAndHalfLn2 ? -1.0 : k;
  k = x > -kHalfLn2 ? 0.0 : k;
  const double rest = exp_of_rest(x - k * kLn2High, k * kLn2Low);
  // Added to a number whose last bit counts ones, k + 1023 stands in the low bits.
  const double power = std::bit_cast<double>(std::bit_cast<uint64_t>(k + (0x1.8p52 + 1023)) << 52);
  return x > -kTiny ? 1 + x : rest * power;
}

}  // namespace

double portable_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > kLargestExp) return kInfinity;
  if (x < kSmallestExp) return 0;
  const double size = std::fabs(x);
  if (size < kTiny) return 1 + x;
  // The method is one bit off here; V8 has the exception too.
  if (x == 1) return std::bit_cast<double>(uint64_t{0x4005bf0a8b145769});
  const double sign = x < 0 ? -1 : 1;
  int k = 0;
  if (size >= kOneAndHalfLn2) {
    k = static_cast<int>(kInverseLn2 * x + sign * 0.5);
  } else if (size >= kHalfLn2) {
    k = static_cast<int>(sign);
  }
  const double rest = exp_of_rest(x - k * kLn2High, k * kLn2Low);
  if (k > 1023) return rest * 2 * power_of_two(1023);
  if (k < -1021) return rest * power_of_two(k + 1000) * power_of_two(-1000);
  return rest * power_of_two(k);
}

void portable_exp(std::span<const double> x, std::span<double> out) {
  const double* const from = x.data();
  double* const to = out.data();
  for (size_t i = 0; i < x.size(); ++i) {
    to[i] = exp_nonpositive(from[i] < kSmallestNormalExp ? kSmallestNormalExp : from[i]);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (from[i] < kSmallestNormalExp) to[i] = portable_exp(from[i]);
  }
}

double portable_log(double x) {
  constexpr double l1 = std::bit_cast<double>(uint64_t{0x3fe5555555555593});
  constexpr double l2 = std::bit_cast<double>(uint64_t{0x3fd999999997fa04});
  constexpr double l3 = std::bit_cast<double>(uint64_t{0x3fd2492494229359});
  constexpr double l4 = std::bit_cast<double>(uint64_t{0x3fcc71c51d8e78af});
  constexpr double l5 = std::bit_cast<double>(uint64_t{0x3fc7466496cb03de});
  constexpr double l6 = std::bit_cast<double>(uint64_t{0x3fc39a09d078c69f});
  constexpr double l7 = std::bit_cast<double>(uint64_t{0x3fc2f112df3e5244});

  if (std::isnan(x) || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    exponent = -54;
    x *= 0x1p54;
  }

  // x = 2^k (1 + f) with √½ < 1 + f < √2
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int32_t fraction = static_cast<int32_t>(bits >> 32) & 0xfffff;
  const int32_t above_root = (fraction + 0x95f64) & 0x100000;
  exponent += static_cast<int>(bits >> 52) - 1023 + (above_root >> 20);
  const uint64_t high = static_cast<uint32_t>(fraction | (above_root ^ 0x3ff00000));
  const double f = std::bit_cast<double>(high << 32 | (bits & 0xffffffff)) - 1;
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
