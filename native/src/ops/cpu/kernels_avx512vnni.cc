// The vector type comes before the kernels, which use it.
// clang-format off
#include "ops/cpu/vector_avx512.h"
#include "ops/cpu/kernels_impl.h"
// clang-format on

namespace sida {
extern const CpuKernels kAvx512VnniKernels;
const CpuKernels kAvx512VnniKernels = make_kernels("avx512vnni");
}  // namespace sida
