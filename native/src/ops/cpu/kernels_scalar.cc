// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_scalar.h"
#include "ops/cpu/kernels_impl.h"
// clang-format on

namespace sida {
extern const CpuKernels kScalarKernels;
const CpuKernels kScalarKernels = make_kernels("scalar");
}  // namespace sida
