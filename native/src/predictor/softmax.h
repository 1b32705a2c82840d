#pragma once

#include <cstddef>

namespace sida {

/// p (n) = softmax of z (n), n >= 1; returns log Σ eᶻ. p may be z. A value of z that is not finite gives a NaN in p.
double softmax(const float* z, size_t n, float* p);

/// dz = J · dp at the p that softmax gave: p · (dp - Σ p · dp). dz may be dp.
void softmax_backward(const float* p, const float* dp, size_t n, float* dz);

}  // namespace sida
