// The steps that portable_exp and the kernels' exp share. The method and its constants are those of fdlibm:
//
// ====================================================
// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//
// Developed at SunSoft, a Sun Microsystems, Inc. business.
// Permission to use, copy, modify, and distribute this
// software is freely granted, provided that this notice
// is preserved.
// ====================================================

#pragma once

#include <cstdint>
#include <cstring>

namespace sida {

// Unnamed: see float_kernels_impl.h.
namespace {

inline double double_of(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// ln 2 in two parts. The first has 32 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
/// ½ ln 2 as fdlibm compares with it: by the high word.
constexpr double kHalfLn2 = 0x1.62e43p-2;
/// Below this, 1 + x is exp(x).
constexpr double kTinyExp = 0x1p-28;

/// exp(high - low), |high - low| <= ½ ln 2.
inline double exp_of_rest(double high, double low) {
  constexpr double p1 = 0x1.555555555553ep-3;
  constexpr double p2 = -0x1.6c16c16bebd93p-9;
  constexpr double p3 = 0x1.1566aaf25de2cp-14;
  constexpr double p4 = -0x1.bbd41c5d26bf1p-20;
  constexpr double p5 = 0x1.6376972bea4d0p-25;
  const double r = high - low;
  const double t = r * r;
  const double c = r - t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * p5))));
  return 1 - ((low - (r * c) / (2 - c)) - high);
}

}  // namespace

}  // namespace sida
