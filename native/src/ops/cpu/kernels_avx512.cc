// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/kernels_impl.h"
// clang-format on

namespace sida {
extern const CpuKernels kAvx512Kernels;
const CpuKernels kAvx512Kernels = make_kernels("avx512");
}  // namespace sida
