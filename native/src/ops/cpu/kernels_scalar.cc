// Vectors before the kernels that are written over them.
// clang-format off
#include "ops/cpu/vector_scalar.h"
#include "ops/cpu/kernels_impl.h"
// clang-format on

namespace sida {
extern const CpuKernels kScalarKernels;
const CpuKernels kScalarKernels = make_kernels("scalar");
}  // namespace sida
