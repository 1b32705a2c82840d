// exp and functions built from it. See float_kernels_impl.h.

#pragma once

#include <cstddef>

#include "spec/epilogue.h"

namespace sida {
namespace {

/// exp by 2^n · e^r with |r| <= ln2/2; degree-6 polynomial, below 2 ulp on [-87, 88]; 0 below.
inline V exp16(V x) {
  const V lo = V::set(-87.0f);
  const V magic = V::set(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer held in the low bits
  // max and min return their second operand where one is NaN. x is the second operand, so that a NaN stays a NaN.
  V clamped = V::max(lo, V::min(V::set(88.0f), x));
  V t = V::fma(clamped, V::set(1.44269504f), magic);
  V n = V::sub(t, magic);
  V r = V::fma(n, V::set(-0.693359375f), clamped);
  r = V::fma(n, V::set(2.12194440e-4f), r);
  V p = V::set(1.9875691500e-4f);
  p = V::fma(p, r, V::set(1.3981999507e-3f));
  p = V::fma(p, r, V::set(8.3334519073e-3f));
  p = V::fma(p, r, V::set(4.1665795894e-2f));
  p = V::fma(p, r, V::set(1.6666665459e-1f));
  p = V::fma(p, r, V::set(5.0000001201e-1f));
  V y = V::fma(V::mul(r, r), p, V::add(r, V::set(1.0f)));
  return V::zero_below(x, lo, V::scale_by_power(y, t));
}

/// g / (1 + exp(-t)); 0 where t is far below -88, for which exp16's cap makes the quotient grow with g.
inline V gated16(V g, V t) {
  return V::zero_below(t, V::set(-87.0f), V::div(g, V::add(V::set(1.0f), exp16(V::sub(V::set(0.0f), t)))));
}

/// g / (1 + exp(-g)); NaN where g is not finite.
inline V silu16(V g) {
  // The fma makes NaN of an infinity, which must not become a valid 0.
  return V::fma(g, V::set(0.0f), gated16(g, g));
}

/// The tanh form of GELU (epilogue.h); NaN where g is not finite.
inline V tanh_gelu16(V g) {
  const V cube = V::mul(V::mul(g, g), V::mul(g, V::set(kGeluCube)));
  return V::fma(g, V::set(0.0f), gated16(g, V::mul(V::add(g, cube), V::set(kGeluSlope))));
}

/// g / (1 + exp(-1.702 g)) · (u + 1) with g = min(gate, 7) and u = up clamped to ±7; NaN where gate or up is not
/// finite.
inline V clamped_swiglu16(V gate, V up) {
  const V limit = V::set(kGateLimit);
  // An infinity must not become a valid limit.
  const V g = V::fma(gate, V::set(0.0f), V::min(limit, gate));
  const V u = V::fma(up, V::set(0.0f), V::max(V::set(-kGateLimit), V::min(limit, up)));
  const V t = V::mul(g, V::set(kGateSlope));
  return V::mul(gated16(g, t), V::add(u, V::set(1.0f)));
}

/// x · (1 + erf(x / √2)) / 2 as max(x, 0) - |x| · tail, where the tail of the normal distribution below -|x| is that of
/// Abramowitz and Stegun, 7.1.26, which is off by less than 1e-7; NaN where x is not finite.
inline V gelu16(V x) {
  const V zero = V::set(0.0f);
  const V size = V::max(x, V::sub(zero, x));
  const V t = V::div(V::set(1.0f), V::fma(size, V::set(0.23164190f), V::set(1.0f)));
  V p = V::set(0.5307027145f);
  p = V::fma(p, t, V::set(-0.7265760135f));
  p = V::fma(p, t, V::set(0.7107068705f));
  p = V::fma(p, t, V::set(-0.142248368f));
  p = V::fma(p, t, V::set(0.127414796f));
  const V tail = V::mul(V::mul(p, t), exp16(V::mul(V::mul(x, x), V::set(-0.5f))));
  return V::fma(x, zero, V::sub(V::max(zero, x), V::mul(size, tail)));
}

/// 1 / (1 + exp(-x)); NaN where x is not finite.
inline V sigmoid16(V x) {
  const V one = V::set(1.0f);
  return V::fma(x, V::set(0.0f), V::div(one, V::add(one, exp16(V::sub(V::set(0.0f), x)))));
}

/// x (n < 16) = f(x): the rest after a loop over whole vectors.
template <class F>
void on_lanes(float* x, size_t n, const F& f) {
  alignas(64) float lane[16] = {};
  for (size_t i = 0; i < n; ++i) lane[i] = x[i];
  V::store(lane, f(V::load(lane)));
  for (size_t i = 0; i < n; ++i) x[i] = lane[i];
}

}  // namespace
}  // namespace sida
