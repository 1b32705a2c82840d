#pragma once

namespace sida {

// exp and log with the same bits on every machine, which no C library promises. They are fdlibm's, and so
// those of Math.exp and Math.log in Node 20. CpuKernels::exp_nonpositive takes many at a time.

double portable_exp(double x);
double portable_log(double x);

}  // namespace sida
