#pragma once

namespace sida {

// exp and log with the same bits on every machine; C libraries do not promise that. Both are fdlibm's functions, as are
// Math.exp and Math.log in Node 20. CpuKernels::exp_nonpositive computes many at a time.

double portable_exp(double x);
double portable_log(double x);

}  // namespace sida
