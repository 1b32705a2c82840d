#pragma once

#include <cstddef>

namespace sida {

/// p (n) = the point of the probability simplex nearest to z (n), n >= 1: max(z - τ, 0) with τ such that p sums to one.
/// Exact zeros outside the support. p may be z. A NaN or +infinity in z gives a NaN in p.
void sparsemax(const float* z, size_t n, float* p);

/// dz = J · dp at the p that sparsemax gave: on the support dp less its mean there, zero elsewhere. dz may be
/// dp.
void sparsemax_backward(const float* p, const float* dp, size_t n, float* dz);

}  // namespace sida
