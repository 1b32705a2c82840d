// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx2.h"
#include "ops/cpu/kernels_impl.h"
// clang-format on

namespace sida {
extern const CpuKernels kAvx2Kernels;
const CpuKernels kAvx2Kernels = make_kernels("avx2");
}  // namespace sida
