#pragma once

#include <span>

namespace sida {

// exp and log with the same bits on every machine, which no C library promises. They are fdlibm's, so they are
// also what Math.exp and Math.log give in Node 20 to 24.

double portable_exp(double x);
double portable_log(double x);

/// out[i] = portable_exp(x[i]), several at a time. `x` and `out` are of one size and do not overlap; each x is
/// at most 0.
void portable_exp(std::span<const double> x, std::span<double> out);

}  // namespace sida
